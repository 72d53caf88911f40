"""How series stand: the newest outcomes of each in each version of the library that its backend is of."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from django.db import connection

from benchapp.catalog.models import Series, Stack, Target
from benchapp.catalog.versions import is_candidate, version_order
from benchapp.runs.models import Document
from benchapp.runs.ranking import may_rank
from benchapp.trends.components import component_order

#: Newest measurements of a series and stack that are read.
_NEWEST = 3
_WORD = re.compile(r"[.+]")


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One measurement made here. `library` and `version` are those of its backend; `first_at` is when its
    series was measured in that version first."""

    series: int
    library: str
    version: str
    stack: int
    document: int
    at: dt.datetime
    first_at: dt.datetime
    outcome: str
    flags: tuple[str, ...]
    median: float | None
    cosine: float | None
    worst_error: float | None
    tolerance: float | None
    said: str
    recorded: bool

    @property
    def ranks(self) -> bool:
        return may_rank(self.outcome, self.flags)


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """A series that was good and is bad: the newest good measurement before, the first known bad one after
    it, the newest of all, and how many bad ones in a row its newest version has."""

    before: Seen
    after: Seen
    newest: Seen
    in_a_row: int


def library_of(backend: str, components: Mapping[str, Any]) -> tuple[str, str]:
    """(component, version) that a backend is of: the first word of its name where the stack has such a
    component, as flashinfer of flashinfer.mm_bf16.cudnn; else the stack's own library."""
    word = _WORD.split(backend)[0]
    if word not in components:
        word = min(components, key=component_order, default="")
    return word, str(components.get(word, ""))


def place_of(target: Target) -> str:
    """What targets are told as one: GPUs and CPUs of a model, else the target itself."""
    return target.model if target.model and target.kind in ("gpu", "cpu") else target.key


def measured_here(document: Document) -> bool:
    """Whether it holds measurements that nobody else made; recorded ones are history, but ours."""
    return (
        document.state == Document.State.ACCEPTED
        and document.origin != Document.Origin.IMPORT
        and bool(document.facts.get("measurements"))
    )


def seen(series: Collection[int]) -> dict[int, list[Seen]]:
    """The newest measurements of each series and stack, the newest first. Not what others made, nor what was
    measured of a candidate, nor in a run that a person found invalid."""
    if not series:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT series_id, stack_id, document_id, measured_at, first_at, outcome, flags, median, cosine,
                max_relative_error, tolerance, left(error, 2000), origin
            FROM (
                SELECT m.*, d.origin,
                    min(m.measured_at) OVER (PARTITION BY m.series_id, m.stack_id) AS first_at,
                    row_number() OVER (
                        PARTITION BY m.series_id, m.stack_id ORDER BY m.measured_at DESC, m.id DESC
                    ) AS place
                FROM runs_measurement m
                JOIN runs_document d ON d.id = m.document_id
                LEFT JOIN runs_run r ON r.id = m.run_id
                WHERE m.series_id = ANY(%s) AND NOT m.flags && '{borrowed,imported}'::varchar[]
                    AND d.origin <> 'import' AND coalesce(r.invalid_reason, '') = ''
            ) AS newest
            WHERE place <= %s
            ORDER BY measured_at DESC, id DESC
            """,
            [list(series), _NEWEST],
        )
        rows = cursor.fetchall()
    stacks = dict(Stack.objects.filter(pk__in={row[1] for row in rows}).values_list("pk", "components"))
    backends = dict(Series.objects.filter(pk__in={row[0] for row in rows}).values_list("pk", "backend"))
    found: dict[int, list[Seen]] = defaultdict(list)
    for (
        pk,
        stack,
        document,
        at,
        first,
        outcome,
        flags,
        median,
        cosine,
        error,
        tolerance,
        said,
        origin,
    ) in rows:
        library, version = library_of(backends[pk], stacks[stack])
        if not is_candidate(version):
            recorded = origin == Document.Origin.RECORDED
            found[pk].append(
                Seen(
                    pk, library, version, stack, document, at, first, outcome, tuple(flags), median, cosine,
                    error, tolerance, said, recorded,
                )
            )  # fmt: skip
    return found


def by_version(rows: Iterable[Seen]) -> dict[str, list[Seen]]:
    """The rows of each version in their order, the newest version first."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for row in rows:
        found[row.version].append(row)
    return dict(sorted(found.items(), key=lambda item: version_order(item[0]), reverse=True))


def newest(rows: Sequence[Seen]) -> Seen:
    """The newest measurement of the newest version, whatever was measured later of an older one."""
    return next(iter(by_version(rows).values()))[0]


def first_at(rows: Iterable[Seen]) -> dt.datetime:
    """When the version of these rows was measured first."""
    return min(row.first_at for row in rows)


def turn(rows: Sequence[Seen], good: Callable[[Seen], bool], bad: Callable[[Seen], bool]) -> Turn | None:
    """Where a series turned bad, or None: it is not bad, or never was good before.

    Versions in their order, of each its newest measurement; what is neither good nor bad says nothing. A
    version that was measured first only after the bad one began is history: nothing turned bad since it.
    """
    first, *older = by_version(rows).values()
    streak = list(takewhile(bad, first))
    if not streak:
        return None
    within = next((row for row in first[len(streak) :] if good(row)), None)
    if within is not None:
        return Turn(within, streak[-1], first[0], len(streak))
    after = first
    for rows_of in older:
        if bad(rows_of[0]):
            after = rows_of
        elif good(rows_of[0]):
            before = rows_of
            if first_at(before) >= first_at(after):
                return None
            return Turn(before[0], after[0], first[0], len(streak))
    return None
