"""Whether the servers answer. Says nothing about where they are or who may use them."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Max, Min
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from benchapp.alerts.models import Watch
from benchapp.celery import app
from benchapp.runs.models import Run

BROKER_TIMEOUT_S = 1.0
#: The looks of detection that its lag is told of.
LOOKS = dt.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    database: bool
    broker: bool
    newest_heartbeat: dt.datetime | None
    #: seconds from the oldest new measurement to the look at its series, the longest of the last hour's looks
    detection_lag_s: float | None
    #: since when the series waits that waits longest for a look
    detection_due: dt.datetime | None

    def as_json(self) -> dict[str, str | float | None]:
        def word(up: bool) -> str:
            return "up" if up else "down"

        return {
            "status": word(self.database and self.broker),
            "database": word(self.database),
            "broker": word(self.broker),
            "newest_heartbeat": self.newest_heartbeat.isoformat() if self.newest_heartbeat else None,
            "detection_lag_s": self.detection_lag_s,
            "detection_due": self.detection_due.isoformat() if self.detection_due else None,
        }


def report() -> Report:
    """Ask both servers; each question ends within seconds whatever they do."""
    try:
        heartbeat = Run.objects.aggregate(newest=Max("heartbeat_at"))["newest"]
        looked = Watch.objects.filter(looked_at__gt=Now() - LOOKS)
        lag = looked.aggregate(longest=Max("lag_s"))["longest"]
        due = Watch.objects.filter(due_at__isnull=False).aggregate(oldest=Min("due_at"))["oldest"]
        database = True
    except (DatabaseError, InterfaceError):
        connection.close()
        heartbeat, lag, due, database = None, None, None, False
    return Report(database, _broker_answers(), heartbeat, lag, due)


def _broker_answers() -> bool:
    try:
        url, timeout = settings.CELERY_BROKER_URL, BROKER_TIMEOUT_S
        with app.connection_for_write(url, connect_timeout=timeout) as broker:
            broker.ensure_connection(max_retries=1, timeout=timeout)
    except (OperationalError, OSError):
        return False
    return True
