"""Listens to other rooms and turns what matters into events."""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver

from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.runs.models import Run, State
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
