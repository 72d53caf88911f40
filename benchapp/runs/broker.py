"""Hints to workers: "there is work". Losing one costs at most the time to the next sweep."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from django.db import transaction
from kombu.exceptions import OperationalError

from benchapp.celery import app

logger = logging.getLogger(__name__)

#: Sent by name: the control plane never imports the workers' code.
WORK_TASK = "workers.work"
INGEST_TASK = "ingest.ingest"
#: Workers ended runs, so listeners are to be told.
ENDED_TASK = "runs.tell_ended"
HINT_EXPIRES_S = 60


def _send(task: str, queue: str, *args: object) -> None:
    try:
        app.send_task(task, args=args, queue=queue, expires=HINT_EXPIRES_S, retry=False)
    except (OperationalError, OSError) as error:
        logger.warning(
            "broker away, %s on %s waits for the next sweep: %s", task, queue, type(error).__name__
        )


def wake(queues: Iterable[str]) -> None:
    """After commit, tell each queue's worker to look for runs."""
    for queue in sorted(set(queues)):
        transaction.on_commit(lambda queue=queue: _send(WORK_TASK, queue, queue))  # type: ignore[misc]


def ask_ingest(document_id: int) -> None:
    """After commit, have the control worker ingest one inbox row."""
    transaction.on_commit(lambda: _send(INGEST_TASK, "control", document_id))


def ask_control(task: str) -> None:
    """After commit, have the control worker do one of its chores."""
    transaction.on_commit(lambda: _send(task, "control"))


def ask_queue(task: str, queue: str) -> None:
    """After commit, have the worker of a queue do one of its chores."""
    transaction.on_commit(lambda: _send(task, queue))
