"""What a worker tells and asks of the fleet, beside `benchapp.runs.work`; no right on any table is needed."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection

from benchapp.runs import broker

#: Reports came in.
REPORTS_TASK = "fleet.take_reports"


def report(worker: str, payload: dict[str, Any]) -> None:
    """Store an installation's newest report, of which `benchapp.fleet.reports` makes rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT worker.report(%s, %s::jsonb)", [worker, json.dumps(payload).replace("\\u0000", "\ufffd")]
        )
    broker.ask_control(REPORTS_TASK)


def candidate(worker: str, sha256: str) -> bytes | None:
    """The wheel of a candidate; None where none is registered under that digest."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker.candidate(%s, %s)", [worker, sha256])
        (body,) = cursor.fetchone()
    return None if body is None else bytes(body)
