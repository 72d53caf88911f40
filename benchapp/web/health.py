"""Whether the servers answer. Says nothing about where they are or who may use them."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Max
from kombu.exceptions import OperationalError

from benchapp.celery import app
from benchapp.runs.models import Run

BROKER_TIMEOUT_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    database: bool
    broker: bool
    newest_heartbeat: dt.datetime | None

    def as_json(self) -> dict[str, str | None]:
        def word(up: bool) -> str:
            return "up" if up else "down"

        return {
            "status": word(self.database and self.broker),
            "database": word(self.database),
            "broker": word(self.broker),
            "newest_heartbeat": self.newest_heartbeat.isoformat() if self.newest_heartbeat else None,
        }


def report() -> Report:
    """Ask both servers; each question ends within seconds whatever they do."""
    try:
        heartbeat = Run.objects.aggregate(newest=Max("heartbeat_at"))["newest"]
        database = True
    except (DatabaseError, InterfaceError):
        connection.close()
        heartbeat, database = None, False
    return Report(database, _broker_answers(), heartbeat)


def _broker_answers() -> bool:
    try:
        url, timeout = settings.CELERY_BROKER_URL, BROKER_TIMEOUT_S
        with app.connection_for_write(url, connect_timeout=timeout) as broker:
            broker.ensure_connection(max_retries=1, timeout=timeout)
    except (OperationalError, OSError):
        return False
    return True
