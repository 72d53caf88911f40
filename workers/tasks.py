"""The one task of a worker: "there is work". Whatever it says, Postgres decides."""

from __future__ import annotations

from celery import shared_task
from django.db import InterfaceError, OperationalError

from benchapp.runs.broker import WORK_TASK
from workers import execute


@shared_task(
    name=WORK_TASK,
    # Postgres away: come back. Losing this retry costs no more than the time to the next sweep.
    autoretry_for=(OperationalError, InterfaceError),
    max_retries=None,
    retry_backoff=2,
    retry_backoff_max=30,
)
def work(queue: str) -> None:
    execute.work_on(queue)
