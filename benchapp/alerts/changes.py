"""What detection found in a series, held against what is stored: the same change stays one row.

A step found again may move by a few points as more come in. One of the same direction within `NEAR` points is
the same; one that is found no longer is kept, with the time since when.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Now

from benchapp.alerts.closing import closed_itself
from benchapp.alerts.detect import Change as Found
from benchapp.alerts.models import Alert, Change
from benchapp.alerts.points import Point, in_sight_from

#: Points by which a step may move and still be the same.
NEAR = 3


def store(
    series_id: int, points: Sequence[Point], found: Sequence[Found], known_from: dt.datetime | None
) -> set[int]:
    """Write the changes of a series; call it under the lock of its watch. Returns the alerts they touch.

    Stored changes that are out of sight (`points.in_sight_from`) stay as they are, unless a new baseline put
    them there.
    """
    stored = list(Change.objects.filter(series_id=series_id).select_related("alert"))
    if not stored and not found:
        return set()
    since = in_sight_from(points)
    matched = _match(stored, points, [s for s in found if since is None or points[s.index].at >= since])
    touched: set[int] = set()
    for row in stored:
        if row.pk in {old.pk for old, _ in matched if old is not None}:
            continue
        forgotten = known_from is not None and row.at < known_from
        if row.gone_at is None and (forgotten or since is None or row.at >= since):
            Change.objects.filter(pk=row.pk).update(gone_at=Now())
            if row.alert_id is not None:
                touched.add(row.alert_id)
    for old, step in matched:
        fields = _fields(points, step)
        if old is None:
            Change.objects.create(series_id=series_id, **fields)
            continue
        if _begins_anew(old, step):
            fields |= {"alert": None, "found_at": Now()}
        moved = {name for name, value in fields.items() if getattr(old, name, None) != value}
        Change.objects.filter(pk=old.pk).update(**fields, seen_at=Now(), gone_at=None)
        if old.alert_id is not None and (moved or old.gone_at is not None):
            touched.add(old.alert_id)
    return touched


def _match(
    stored: Sequence[Change], points: Sequence[Point], found: Sequence[Found]
) -> list[tuple[Change | None, Found]]:
    """Each step beside its stored change, if it has one: that of the very same point first, else the nearest
    of its direction."""
    place = {(p.at, p.stack_id): i for i, p in enumerate(points)}
    by_moment = {p.at: i for i, p in enumerate(points)}
    free = {row.pk: row for row in stored}
    pairs: dict[int, Change] = {}
    # one series has one change at a moment: of two the larger
    steps = {points[step.index].at: step for step in sorted(found, key=lambda s: max(s.ratio, 1 / s.ratio))}
    for step in steps.values():
        same = next((row for row in free.values() if row.at == points[step.index].at), None)
        if same is not None:
            pairs[step.index] = free.pop(same.pk)
    for step in steps.values():
        if step.index in pairs:
            continue
        near = [
            (abs(index - step.index), row.pk)
            for row in free.values()
            if row.worse == step.worse
            and (index := place.get((row.at, row.stack_after_id), by_moment.get(row.at))) is not None
            and abs(index - step.index) <= NEAR
        ]
        if near:
            pairs[step.index] = free.pop(min(near)[1])
    return [(pairs.get(step.index), step) for step in steps.values()]


def _fields(points: Sequence[Point], step: Found) -> dict[str, Any]:
    first, last = points[step.index], points[step.index - 1]
    return {
        "at": first.at,
        "before_at": last.at,
        "stack_before_id": last.stack_id,
        "stack_after_id": first.stack_id,
        "before": step.before,
        "after": step.after,
        "ratio": step.ratio,
        "low": step.low,
        "high": step.high,
        "confidence": step.confidence,
        "certain": step.certain,
        "worse": step.worse,
        "n_before": step.n_before,
        "n_after": step.n_after,
    }


def _begins_anew(old: Change, step: Found) -> bool:
    """Whether it is told of again: it turned round, or is back after the alert of it closed by itself, for it
    was no longer found. What a person or an A/B called invalid is no news."""
    if old.worse != step.worse:
        return True
    alert = old.alert
    return (
        old.gone_at is not None
        and alert is not None
        and alert.state == Alert.State.INVALID
        and alert.verdict != Alert.Verdict.SAME
        and closed_itself(alert)
    )
