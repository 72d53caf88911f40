"""What people do to the fleet: maintenance, freeing disk, forgetting a host. Each leaves an audit row."""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from benchapp.catalog.locks import lock
from benchapp.fleet import maintenance
from benchapp.fleet.models import Installation, Report
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import broker, queues
from benchapp.runs.models import Maintenance

#: A task of the workers, sent by name: remove what the disk budget does not need.
COLLECT_TASK = "workers.collect"


@transaction.atomic
def take_out(
    *,
    user: User,
    reason: str,
    gpu: str = "",
    host: str = "",
    starts_at: dt.datetime | None = None,
    ends_at: dt.datetime | None = None,
) -> tuple[Maintenance, bool]:
    """Keep new runs from a GPU or a host, from now or `starts_at` on; without an end it is a drain. What runs
    there goes on. Returns (row, created): draining what is drained changes nothing.
    """
    lock(f"maintenance:{gpu or host}")
    if ends_at is None:
        drained = maintenance.now().filter(gpu=gpu, host=host, ends_at=None).first()
        if drained is not None:
            return drained, False
    row = Maintenance(gpu=gpu, host=host, reason=reason, ends_at=ends_at, created_by=user)
    if starts_at is not None:
        row.starts_at = starts_at
    row.save()
    audit.record(
        user,
        "start_maintenance",
        gpu or host,
        reason=reason,
        starts_at=starts_at.isoformat() if starts_at else None,
        ends_at=ends_at.isoformat() if ends_at else None,
    )
    return row, True


@transaction.atomic
def lift(maintenance_id: int, *, user: User) -> Maintenance | None:
    """End a drain or a window, or call off a coming one; None if it had ended already."""
    not_over = Maintenance.objects.filter(maintenance.NOW | maintenance.LATER)
    row = not_over.select_for_update().filter(pk=maintenance_id).first()
    if row is None:
        return None
    Maintenance.objects.filter(pk=row.pk).update(lifted_at=Now())
    audit.record(user, "end_maintenance", row.gpu or row.host, reason=row.reason)
    places = Installation.objects.filter(Q(host=row.host) if row.host else Q(gpus__uuid=row.gpu))
    broker.wake(queue for served in places.values_list("queues", flat=True) for queue in served)
    return row


@transaction.atomic
def collect(installation: Installation, *, user: User) -> None:
    """Have a host remove old environments, caches and logs now."""
    audit.record(user, "collect", installation.host, installation=installation.key)
    broker.ask_queue(COLLECT_TASK, queues.chores_of(installation.key))


@transaction.atomic
def forget(installation: Installation, *, user: User) -> bool:
    """Take a silent host off the page; it comes back with its next report. False where it is not silent."""
    row = Installation.objects.select_for_update().filter(pk=installation.pk, silent=True).first()
    if row is None:
        return False
    Report.objects.filter(installation=row.key).delete()
    row.delete()
    audit.record(user, "forget_host", row.host, installation=row.key)
    return True
