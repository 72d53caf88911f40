from __future__ import annotations

import datetime as dt

from celery import shared_task

from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.ingest import actions
from benchapp.runs import partitions


@shared_task(name="ingest.ingest")
def ingest(document_id: int) -> None:
    actions.ingest(document_id)


@shared_task(name="ingest.make_partitions")
def make_partitions() -> None:
    """This month's partitions and the next two, ahead of need; rows outside of any raise an event a day."""
    today = dt.datetime.now(dt.UTC)
    partitions.ensure([today, today + dt.timedelta(days=31), today + dt.timedelta(days=62)])
    for table, count in partitions.rows_in_default().items():
        if count:
            raise_event(
                "rows_in_default",
                Event.Severity.WARNING,
                subject=table,
                sentence=f"{count:,} rows of {table} lie outside of every month's partition.",
                dedupe_key=f"rows_in_default:{table}:{today:%Y-%m-%d}",
            )
