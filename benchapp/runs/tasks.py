"""Chores of the control worker."""

from __future__ import annotations

from celery import shared_task

from benchapp.runs import actions
from benchapp.runs.broker import ENDED_TASK


@shared_task(name="runs.sweep")
def sweep() -> None:
    actions.sweep()


@shared_task(name=ENDED_TASK)
def tell_ended() -> None:
    actions.tell_ended()
