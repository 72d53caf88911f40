"""Chores of the control worker."""

from __future__ import annotations

from celery import shared_task

from benchapp.runs import actions


@shared_task(name="runs.sweep")
def sweep() -> None:
    actions.sweep()
