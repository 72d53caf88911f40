"""What detection sees of a series: its observations, and the order in which they say something.

An observation is a measurement that may rank and was really made with its stack: never a borrowed one. One of
a candidate, a patch under test, is none either: it is no step on the way from release to release. The newest
`MOST` count, none from before the series' new baseline.

**Order.** By time while the stacks come in the order of their versions, as nights and upgrades do. A backfill
measures old versions after new ones, and a rollback goes back to one: by time their series step to and fro.
There the question is what an upgrade changed, and the order is by version, within one stack by time.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from django.db import connection

from benchapp.alerts.detect import MINIMUM_HISTORY
from benchapp.catalog.models import Stack
from benchapp.catalog.versions import is_candidate, version_order
from benchapp.runs.ranking import DOUBTFUL, NEVER_RANKS, RANKED_OUTCOMES
from benchapp.trends.components import component_order

#: Observations of a series that a look rests on.
MOST = 400
#: Steps within so many of the oldest are out of sight where older ones are no longer read.
EDGE = MINIMUM_HISTORY
#: Up to so many, their samples are read too: a longer series has shown its spread.
SAMPLED = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One observation; `median` in the unit of its series' metric, `samples` of fresh processes where the run
    had several."""

    at: dt.datetime
    measurement_id: int
    run_id: int | None
    document_id: int
    stack_id: int
    median: float
    doubtful: bool
    recorded: bool
    process_medians: tuple[float, ...] = ()
    samples: tuple[float, ...] = ()


VersionKey = tuple[tuple[tuple[int, str], Any], ...]


def stack_order(components: Mapping[str, str]) -> VersionKey:
    """A key that sorts stacks as upgrades go: by the version of the stack's own library first, of what lies
    below it next, and of everything else by name."""
    names = sorted(components, key=component_order)
    return tuple((component_order(name), version_order(str(components[name]))) for name in names)


def in_order(points: Iterable[Point], stacks: Mapping[int, Mapping[str, str]]) -> list[Point]:
    """The observations in the order in which detection reads them: see above.

    Of two at one moment with one stack, as when a file came twice in two forms, the one taken in last counts.
    """
    single = {(p.at, p.stack_id): p for p in sorted(points, key=lambda p: p.measurement_id)}
    by_time = sorted(single.values(), key=lambda p: (p.at, p.measurement_id))
    if not by_time:
        return []
    seen = {p.stack_id: stacks[p.stack_id] for p in by_time}
    # a component that one of them lacks says nothing of which came first
    common = set.intersection(*map(set, seen.values()))
    keys = {pk: stack_order({name: of[name] for name in common}) for pk, of in seen.items()}
    if all(keys[a.stack_id] <= keys[b.stack_id] for a, b in pairwise(by_time)):
        return by_time
    return sorted(by_time, key=lambda p: (keys[p.stack_id], p.stack_id, p.at, p.measurement_id))


def stacks_in_order(points: Sequence[Point]) -> list[int]:
    """The stacks of ordered points, each once for each time that it begins."""
    return [p.stack_id for i, p in enumerate(points) if i == 0 or points[i - 1].stack_id != p.stack_id]


def in_sight_from(points: Sequence[Point]) -> dt.datetime | None:
    """Since when steps are in sight; None where there is no observation. What stood before a step goes out of
    sight point by point as a long series grows, until it looks like none."""
    times = sorted(p.at for p in points)
    if not times:
        return None
    # fewer than MOST, for candidates and doubled ones are read too
    return times[EDGE if len(times) > MOST // 2 else 0]


def of_series(series_id: int, known_from: dt.datetime | None) -> list[Point]:
    """The observations of a series, in order."""
    rows = _rows(series_id, known_from)
    samples = _samples(rows) if len(rows) <= SAMPLED else {}
    found = [
        Point(
            at=at,
            measurement_id=number,
            run_id=run_id,
            document_id=document_id,
            stack_id=stack_id,
            median=median,
            doubtful=bool(set(DOUBTFUL) & set(flags)),
            recorded=origin == "recorded",
            process_medians=tuple(process_medians),
            samples=tuple(process_medians) if len(process_medians) > 1 else samples.get(number, ()),
        )
        for at, number, run_id, document_id, stack_id, median, flags, process_medians, origin in rows
    ]
    ids = {point.stack_id for point in found}
    stacks = {
        pk: components
        for pk, components in Stack.objects.filter(pk__in=ids).values_list("pk", "components")
        if not any(is_candidate(str(version)) for version in components.values())
    }
    return in_order((point for point in found if point.stack_id in stacks), stacks)


def _rows(series_id: int, known_from: dt.datetime | None) -> list[tuple[Any, ...]]:
    """The newest first. Each partition is read by its index from the end, and no further than needed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT measured_at, id, run_id, document_id, stack_id, median, flags, process_medians,
                (SELECT origin FROM runs_document WHERE runs_document.id = document_id)
            FROM (
                SELECT * FROM runs_measurement
                WHERE series_id = %(series)s AND measured_at >= %(from)s
                    AND outcome = ANY(%(outcomes)s) AND NOT flags && %(never)s::varchar[]
                    AND median > 0 AND median < 'infinity'
                    -- by key: a list of the invalid ones would read all runs at each look
                    AND coalesce((SELECT invalid_reason = '' FROM runs_run WHERE runs_run.id = run_id), true)
                ORDER BY measured_at DESC, id DESC
                LIMIT %(most)s
            ) AS newest
            ORDER BY measured_at DESC, id DESC
            """,
            {
                "series": series_id,
                "from": known_from or dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
                "outcomes": list(RANKED_OUTCOMES),
                "never": [*NEVER_RANKS, "borrowed"],
                "most": MOST,
            },
        )
        return list(cursor.fetchall())


def _samples(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[float, ...]]:
    """The samples of measurements, by id."""
    if not rows:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT s.measurement_id, s.values FROM runs_sample s
            JOIN unnest(%s::timestamptz[], %s::bigint[]) AS wanted (at, id)
                ON s.measured_at = wanted.at AND s.measurement_id = wanted.id
            WHERE s.measured_at BETWEEN %s AND %s
            """,
            [[row[0] for row in rows], [row[1] for row in rows], rows[-1][0], rows[0][0]],
        )
        return {number: tuple(values) for number, values in cursor.fetchall()}
