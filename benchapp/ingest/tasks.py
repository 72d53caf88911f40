from __future__ import annotations

from celery import shared_task

from benchapp.ingest import actions


@shared_task(name="ingest.ingest")
def ingest(document_id: int) -> None:
    actions.ingest(document_id)
