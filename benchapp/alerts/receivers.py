"""Listens to other rooms and turns what matters into events, and events and documents into alerts."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from benchapp.alerts.actions import raise_event
from benchapp.alerts.kinds import registry
from benchapp.alerts.models import Event
from benchapp.runs.models import Document, Run, State
from benchapp.runs.signals import run_ended


@receiver(run_ended)
def failed_run(sender: type[Run], run: Run, **kwargs: Any) -> None:
    if run.state == State.FAILED:
        raise_event(
            "run_failed",
            Event.Severity.ERROR,
            subject=f"run {run.pk}",
            sentence=run.failure,
            dedupe_key=f"run_failed:{run.pk}:{run.attempt}",
            payload={"run": run.pk, "code": run.failure_code},
        )


@receiver(post_save, sender=Event)
def event_raised(sender: type[Event], instance: Event, created: bool, **kwargs: Any) -> None:
    if created:
        registry.at_event(instance)


@receiver(post_save, sender=Document)
def document_accepted(
    sender: type[Document], instance: Document, update_fields: frozenset[str] | None, **kwargs: Any
) -> None:
    if "state" in (update_fields or ()) and instance.state == Document.State.ACCEPTED:
        registry.soon()
