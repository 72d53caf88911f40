"""Chores of the control worker."""

from __future__ import annotations

import datetime as dt

from celery import shared_task

from benchapp.runs import actions, partitions


@shared_task(name="runs.sweep")
def sweep() -> None:
    actions.sweep()


@shared_task(name="runs.make_partitions")
def make_partitions() -> None:
    """This month's partitions and the next two, ahead of need."""
    today = dt.datetime.now(dt.UTC)
    partitions.ensure([today, today + dt.timedelta(days=31), today + dt.timedelta(days=62)])
