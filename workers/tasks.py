"""The one task of a worker: "there is work". Whatever it says, Postgres decides."""

from __future__ import annotations

from celery import shared_task

from benchapp.runs.broker import WORK_TASK
from workers import execute


@shared_task(name=WORK_TASK)
def work(queue: str) -> None:
    """A hint about one of this worker's queues; it looks into all of them."""
    execute.work_on()
