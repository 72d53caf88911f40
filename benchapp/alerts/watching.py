"""Which series wait for a look, and the look itself: observations → detection → changes.

Ingest marks series due in its own transaction. The control worker looks at each by itself, in a transaction
of its own under the lock of its row: two detectors never look at one series at once, and one that fails
leaves the others running. A series that was just looked at waits `SETTLE_S`, so that a thousand documents in
a minute cost it two looks or three.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Collection, Iterable
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.dispatch import receiver
from psycopg.errors import QueryCanceled

from benchapp.alerts import changes
from benchapp.alerts.actions import raise_event
from benchapp.alerts.detect import spread
from benchapp.alerts.gathering import MOST, gather
from benchapp.alerts.models import Change, Event, Watch
from benchapp.alerts.points import of_series, stacks_in_order
from benchapp.alerts.stepping import steps
from benchapp.runs.broker import ask_control
from benchapp.runs.models import Run
from benchapp.runs.ranking import NEVER_RANKS, RANKED_OUTCOMES
from benchapp.runs.signals import run_judged

logger = logging.getLogger(__name__)

LOOK_TASK = "alerts.look"
SETTLE_S = 20
#: One task looks no longer: the control worker has other chores.
BUDGET_S = 10.0
#: After so long a look that failed is tried again: a database may have been busy.
RETRY = dt.timedelta(hours=1)
_BATCH = 50
#: A statement of a look that takes longer is given up, and the series with it.
STATEMENT_MS = 20_000

_DUE = """
INSERT INTO alerts_watch (series_id, due_at, points, failure, muted, stacks)
{series}
ON CONFLICT (series_id) DO UPDATE SET due_at = excluded.due_at WHERE alerts_watch.due_at IS NULL
"""


def mark(series_ids: Iterable[int]) -> None:
    """Have series looked at after commit; those that wait already keep their place."""
    ids = sorted(set(series_ids))
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE.format(
                series="SELECT id, now(), 0, '', false, '{}'::bigint[] FROM unnest(%s::bigint[]) AS id"
            ),
            [ids],
        )
    ask_control(LOOK_TASK)


def mark_document(document_id: int, first: dt.datetime, last: dt.datetime) -> int:
    """Mark the series of which a document brought an observation that is not their first; how many.

    Call it before the document's measurements become the newest of their series (`runs_latest`), in the
    transaction that stored them. A series seen once holds no step, and tables of other tools have half a
    million of them. `first` and `last` bound `measured_at`, and so the partitions that are read.
    """
    seen = """
        SELECT m.series_id, now(), 0, '', false, '{}'::bigint[]
        FROM runs_measurement m LEFT JOIN runs_latest l ON l.series_id = m.series_id
        WHERE m.document_id = %(document)s AND m.measured_at BETWEEN %(first)s AND %(last)s
            AND m.outcome = ANY(%(outcomes)s) AND NOT m.flags && %(never)s::varchar[] AND m.median > 0
        GROUP BY m.series_id HAVING count(*) > 1 OR count(l.series_id) > 0
        ORDER BY m.series_id
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE.format(series=seen),
            {
                "document": document_id,
                "first": first,
                "last": last,
                "outcomes": list(RANKED_OUTCOMES),
                "never": [*NEVER_RANKS, "borrowed"],
            },
        )
        marked = int(cursor.rowcount)
    if marked:
        ask_control(LOOK_TASK)
    return marked


@receiver(run_judged)
def mark_run(sender: type[Run], run: Run, **kwargs: Any) -> None:
    """A run that leaves detection, or comes back into it, has its series looked at again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT series_id FROM runs_measurement JOIN alerts_watch USING (series_id) "
            "WHERE run_id = %s",
            [run.pk],
        )
        ids = [row[0] for row in cursor.fetchall()]
    mark(ids)


@dataclasses.dataclass(slots=True)
class Looked:
    """What came of looking: how many series, which alerts have to be written anew."""

    series: int = 0
    alerts: set[int] = dataclasses.field(default_factory=set)


def look_at_due() -> int:
    """Look at the series that wait and have settled, those that waited longest first, for `BUDGET_S` at most,
    and make alerts of what was found. Returns how many were looked at; what is left is asked for anew."""
    Watch.objects.filter(failure__gt="", due_at=None, looked_at__lt=Now() - RETRY).update(due_at=Now())
    looked = Looked()
    settled = Q(looked_at=None) | Q(looked_at__lt=Now() - dt.timedelta(seconds=SETTLE_S))
    waiting = Watch.objects.filter(settled, due_at__isnull=False).order_by("due_at", "pk")
    until = time.monotonic() + BUDGET_S
    while time.monotonic() < until:
        due = list(waiting.values_list("pk", flat=True)[:_BATCH])
        before = looked.series
        for series_id in due:
            _look_safely(series_id, looked, only_due=True)
        if looked.series == before:  # none is due, or others are at all of them
            break
    else:
        ask_control(LOOK_TASK)
    gather(looked.alerts)
    return looked.series


def look_at_all(series_ids: Collection[int] | None = None) -> int:
    """Look at every series that waits, or at these, however long it takes. Returns how many; one that another
    detector is at counts for none."""
    looked = Looked()
    waiting = Watch.objects.filter(due_at__isnull=False) if series_ids is None else Watch.objects.all()
    if series_ids is not None:
        waiting = waiting.filter(pk__in=series_ids)
    for series_id in list(waiting.order_by("pk").values_list("pk", flat=True)):
        _look_safely(series_id, looked, only_due=series_ids is None)
    pending = Change.objects.filter(alert=None, gone_at=None).count()
    for _ in range(1 + pending // MOST):
        gather(looked.alerts)
        looked.alerts.clear()
    return looked.series


def _look_safely(series_id: int, looked: Looked, *, only_due: bool) -> None:
    """Whatever goes wrong with one series is noted with it, and is no other's trouble. What is wrong with the
    database itself is raised: OperationalError, InterfaceError."""
    try:
        touched = _look(series_id, only_due=only_due)
    except InterfaceError:
        raise
    except Exception as error:
        if isinstance(error, OperationalError) and not isinstance(error.__cause__, QueryCanceled):
            raise
        logger.exception("series %s: detection failed", series_id)
        _note_failure(series_id, type(error).__name__)
        looked.series += 1
        return
    if touched is not None:
        looked.series += 1
        looked.alerts |= touched


@transaction.atomic
def _look(series_id: int, *, only_due: bool) -> set[int] | None:
    """The alerts whose changes moved; None where somebody else has the series under lock, or, of those that
    were due, has looked at it since."""
    waiting = Watch.objects.filter(due_at__isnull=False) if only_due else Watch.objects.all()
    watch = waiting.select_for_update(skip_locked=True).filter(pk=series_id).first()
    if watch is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = %s", [STATEMENT_MS])
    points = of_series(series_id, watch.known_from)
    settings: dict[str, Any] = {"spread": watch.set_spread}
    if watch.minimum_history is not None:
        settings["minimum_history"] = watch.minimum_history
    if watch.least_effect is not None:
        settings["min_effect"] = watch.least_effect
    touched = changes.store(series_id, points, steps(points, **settings), watch.known_from)
    # whoever would set `due_at` meanwhile waits for this row, so no mark is lost here
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE alerts_watch SET looked_at = now(), points = %s, spread = %s, stacks = %s, failure = '',
                lag_s = CASE WHEN due_at IS NULL THEN lag_s
                    ELSE greatest(extract(epoch FROM clock_timestamp() - due_at), 0) END,
                due_at = NULL
            WHERE series_id = %s
            """,
            [len(points), spread([p.median for p in points]), stacks_in_order(points), series_id],
        )
    return touched


@transaction.atomic
def _note_failure(series_id: int, error: str) -> None:
    sentence = f"The last look failed with {error}; the control worker's log has the whole of it."
    Watch.objects.filter(pk=series_id).update(failure=sentence, looked_at=Now(), due_at=None)
    raise_event(
        "detection_failed",
        Event.Severity.ERROR,
        subject=f"series {series_id}",
        sentence=f"Detection failed on series {series_id} with {error}; others went on.",
        dedupe_key=f"detection_failed:{error}:{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        payload={"series": series_id},
    )
