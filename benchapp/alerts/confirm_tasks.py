"""Chores of the control worker: what waits to be confirmed, bisects that stand still, alerts that wake."""

from __future__ import annotations

from celery import shared_task

from benchapp.alerts import bisecting, confirm, snoozing


@shared_task(name=confirm.TASK)  # type: ignore[untyped-decorator,unused-ignore]
def confirm_alerts() -> None:
    snoozing.wake_snoozed()
    bisecting.go_on()
    confirm.ask_waiting()
