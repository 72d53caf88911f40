"""Which GPUs and hosts take no new runs, now and later. `worker.claim` is what holds to it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from benchapp.fleet.words import moment
from benchapp.runs.models import Maintenance

NOW = Q(lifted_at=None, starts_at__lte=Now()) & (Q(ends_at=None) | Q(ends_at__gt=Now()))
LATER = Q(lifted_at=None, starts_at__gt=Now())


def now() -> QuerySet[Maintenance]:
    return Maintenance.objects.filter(NOW)


def current_and_coming() -> QuerySet[Maintenance]:
    return Maintenance.objects.filter(NOW | LATER).select_related("created_by").order_by("starts_at", "pk")


def holding(rows: Iterable[Maintenance], *, host: str = "", uuids: Iterable[str] = ()) -> Maintenance | None:
    """The one of `rows` that keeps a host or any of the GPUs from new runs; the longest one."""
    wanted = set(uuids)
    found = [row for row in rows if (host and row.host == host) or (row.gpu and row.gpu in wanted)]
    return max(found, key=lambda row: (row.ends_at is None, row.ends_at or row.starts_at), default=None)


def words(row: Maintenance) -> str:
    """ "drained: reason", "under maintenance until …: reason"."""
    if row.ends_at is None:
        return f"drained: {row.reason}"
    return f"under maintenance until {moment(row.ends_at)}: {row.reason}"
