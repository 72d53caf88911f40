"""Detection over what is stored already, as a command asks for it."""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import Q

from benchapp.alerts import gathering, watching
from benchapp.alerts.models import Alert, Change
from benchapp.catalog.models import Series
from benchapp.people import audit


@transaction.atomic
def ask(*, every: bool = False, series_id: int | None = None, reset: bool = False) -> tuple[int, int]:
    """Mark one series, or every one with two observations or more, or neither; forget first what was found
    where `reset` says so, but for alerts that a person has touched.

    Returns how many changes and alerts were forgotten. Raises ValueError for a series that is not there.
    """
    if series_id is not None and not Series.objects.filter(pk=series_id).exists():
        raise ValueError(f"--series: there is no series {series_id}.")
    forgotten = _forget(series_id) if reset else (0, 0)
    if series_id is not None:
        watching.mark([series_id])
    elif every or reset:
        watching.mark(_seen_twice())
    audit.record(
        None,
        "detect",
        "every series" if series_id is None else f"series {series_id}",
        changes_forgotten=forgotten[0],
        alerts_forgotten=forgotten[1],
    )
    return forgotten


def _forget(series_id: int | None) -> tuple[int, int]:
    touched = ~Q(state=Alert.State.NEW) | Q(assignee__isnull=False) | Q(entries__user__isnull=False)
    kept = Alert.objects.filter(touched).values("pk")
    changes = Change.objects.exclude(alert__in=kept)
    if series_id is not None:
        changes = changes.filter(series=series_id)
    count, _ = changes.delete()
    empty = gathering.own().exclude(pk__in=kept).filter(changes=None)
    alerts = empty.count()
    empty.delete()
    return count, alerts


def _seen_twice() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT series_id FROM runs_measurement WHERE median > 0 GROUP BY series_id HAVING count(*) > 1"
        )
        return [row[0] for row in cursor.fetchall()]
