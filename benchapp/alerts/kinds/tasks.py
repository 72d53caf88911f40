"""Chores of the control worker for kinds of alert."""

from __future__ import annotations

from celery import shared_task

from benchapp.alerts.kinds import registry


@shared_task(name=registry.LOOK_TASK)  # type: ignore[untyped-decorator,unused-ignore]
def look_at_documents() -> None:
    registry.look_at_new()


@shared_task(name="alerts.sweep_kinds")  # type: ignore[untyped-decorator,unused-ignore]
def sweep_kinds() -> None:
    registry.sweep()
