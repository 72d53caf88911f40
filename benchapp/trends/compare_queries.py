"""Reads of a comparison: the sides' documents, and what `compare_pairs` left in `compare_pair`."""

# Only text of this module is put into statements; every value travels as a parameter.
# ruff: noqa: S608

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from benchapp.catalog.models import Target
from benchapp.runs import again
from benchapp.runs.models import Document
from benchapp.runs.queries import source_of
from benchapp.runs.ranking import may_rank
from benchapp.trends.compare_sides import Held, Side, stacks_of
from benchapp.trends.compare_stats import Ratio
from benchapp.trends.models import ELSEWHERE
from benchapp.trends.points import TIMERS, kind_name
from benchapp.trends.utilisation import counted, value
from workers.bench.backends import library_of

#: The classes of a pair, in the order in which they are counted.
VERDICTS = ("better", "worse", "same", "uncertain", "missing", "incorrect")
#: Rows of a page.
PAGE = 100
ORDERS = {
    "effect": "abs(ln(ratio)) DESC NULLS LAST",
    "time": "abs(after - before) DESC NULLS LAST",
}
#: What makes an order total.
THEN = "kind, dtype, shape, size, old_backend, new_backend, case_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Ratios of the pairs that are better, worse or the same."""

    pairs: int
    geometric_mean: float
    q1: float
    median: float
    q3: float
    best: float
    worst: float


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """How the pairs of one kind and format stand, or all. `had` and `has`: cases with a time on a side."""

    kind: str
    dtype: str
    counts: Mapping[str, int]
    spread: Spread | None
    had: int
    has: int
    lost: int
    new: int

    @property
    def label(self) -> str:
        return " ".join(part for part in (kind_name(self.kind), self.dtype) if part)


@dataclasses.dataclass(frozen=True, slots=True)
class Half:
    """One side's measurement in a row, ready to be shown. Times in seconds, `of_roofline` a fraction."""

    backend: str
    library: str
    seconds: float | None
    low: float | None
    high: float | None
    host: float | None
    of_roofline: float | None
    outcome: str
    flags: tuple[str, ...]
    timer: str
    l2_policy: str
    error: str
    invalid_reason: str
    href: str
    source: str
    again: str


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A pair with all that the page says of it."""

    case: str
    kind: str
    dtype: str
    verdict: str
    reason: str
    host_verdict: str
    ratio: float | None
    interval: Ratio | None
    before: Half | None
    after: Half | None

    @property
    def lost_s(self) -> float | None:
        """Seconds a call that were lost; below 0 won."""
        if self.ratio is None or self.before is None or self.after is None:
            return None
        return (self.after.seconds or 0) - (self.before.seconds or 0)

    @property
    def host_ratio(self) -> float | None:
        if not self.host_verdict or self.before is None or self.after is None:
            return None
        return (self.after.host or 0) / self.before.host if self.before.host else None


def side(
    choice: str,
    here: Sequence[Held],
    *,
    place: str,
    name: str,
    since: dt.date | None = None,
    until: dt.date | None = None,
    only: tuple[str, int] | None = None,
) -> Side:
    """The side that a choice means among what is held `here`, in words `name` at `place`. `until` is its
    last day, in UTC."""
    stacks = stacks_of(choice, here)
    targets = {each.target.pk for each in here}
    documents = Document.objects.filter(
        state=Document.State.ACCEPTED, kind="gemm", target__in=targets, stack__in=stacks
    )
    if only:
        documents = documents.filter(**{"run_id" if only[0] == "run" else "pk": only[1]})
    return Side(
        place=place,
        name=name,
        stacks=tuple(stacks),
        documents=tuple(documents.order_by("pk").values_list("pk", flat=True)),
        since=_midnight(since),
        until=_midnight(until + dt.timedelta(days=1)) if until else None,
        only=" ".join(map(str, only)) if only else "",
    )


def _midnight(day: dt.date | None) -> dt.datetime | None:
    return dt.datetime.combine(day, dt.time(), dt.UTC) if day else None


def offers() -> dict[str, list[str]]:
    """What the filters can ask for: kinds and formats that were ever measured; shapes (those with most cases
    first) and backends among the pairs."""
    asked = {
        "kind": "SELECT kind FROM catalog_case WHERE kind <> ALL(%(elsewhere)s) GROUP BY 1 ORDER BY 1",
        "dtype": "SELECT dtype FROM catalog_case WHERE dtype <> '' GROUP BY 1 ORDER BY 1",
        "shape": "SELECT shape FROM compare_pair WHERE shape <> '' GROUP BY 1 "
        "ORDER BY count(*) DESC, 1 LIMIT 200",
        "backend": "SELECT old_backend FROM compare_pair GROUP BY 1 UNION "
        "SELECT new_backend FROM compare_pair GROUP BY 1 ORDER BY 1",
    }
    found = {}
    with connection.cursor() as cursor:
        for name, query in asked.items():
            cursor.execute(query, {"elsewhere": list(ELSEWHERE)})
            found[name] = [row[0] for row in cursor.fetchall() if row[0]]
    return found


def groups() -> tuple[Group, list[Group]]:
    """How all pairs stand, and those of each kind and format, the most pairs first."""
    compared = "verdict IN ('better', 'worse', 'same')"
    counts = ", ".join(f"count(*) FILTER (WHERE verdict = '{verdict}')" for verdict in VERDICTS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT kind, dtype, grouping(kind), {counts},
                count(*) FILTER (WHERE {compared}), exp(avg(ln(ratio)) FILTER (WHERE {compared})),
                percentile_cont(ARRAY[0, 0.25, 0.5, 0.75, 1]) WITHIN GROUP (ORDER BY ratio)
                    FILTER (WHERE {compared}),
                count(before), count(after),
                count(*) FILTER (WHERE verdict = 'missing' AND after IS NULL),
                count(*) FILTER (WHERE verdict = 'missing' AND before IS NULL)
            FROM compare_pair WHERE verdict <> 'neither'
            GROUP BY GROUPING SETS ((), (kind, dtype)) ORDER BY 3 DESC, count(*) DESC, 1, 2
            """
        )
        whole, *rest = [_group(row) for row in cursor.fetchall()]
    return whole, rest


def _group(row: Sequence[Any]) -> Group:
    kind, dtype, _, *rest = row
    counts, (pairs, mean, quantiles, had, has, lost, new) = rest[: len(VERDICTS)], rest[len(VERDICTS) :]
    spread = None
    if pairs:
        best, q1, median, q3, worst = quantiles
        spread = Spread(pairs, mean, q1, median, q3, best, worst)
    return Group(
        kind or "", dtype or "", dict(zip(VERDICTS, counts, strict=True)), spread, had, has, lost, new
    )


def without_time() -> int:
    """Pairs of which neither side has a time; they are in no class."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM compare_pair WHERE verdict = 'neither'")
        return int(cursor.fetchone()[0])


def host_counts() -> dict[str, int]:
    """Pairs by what is said of their host time; those that measured none are not counted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT host_verdict, count(*) FROM compare_pair "
            "WHERE verdict <> 'neither' AND host_verdict <> '' GROUP BY 1"
        )
        return dict(cursor.fetchall())


def listed(verdict: str, order: str, *, limit: int = PAGE, offset: int = 0) -> list[Row]:
    """Pairs of one class in order; of the missing, those that were lost come first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT kind, dtype, verdict, reason, host_verdict, ratio, low, high,
                old_low, old_high, new_low, new_high, old_at, old_id, new_at, new_id
            FROM compare_pair WHERE verdict = %(verdict)s
            ORDER BY {ORDERS[order]}, after IS NOT NULL, {THEN} LIMIT %(limit)s OFFSET %(offset)s
            """,
            {"verdict": verdict, "limit": limit, "offset": offset},
        )
        found = cursor.fetchall()
    keys = [key for row in found for key in ((row[12], row[13]), (row[14], row[15])) if key[1] is not None]
    detail = _details(keys)
    return [_row(row, detail) for row in found]


def _details(keys: Sequence[tuple[dt.datetime, int]]) -> dict[int, dict[str, Any]]:
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT measured.id, measured.outcome, measured.flags, measured.median, measured.host_median,
                measured.timer, measured.l2_policy, measured.flops, measured.bytes,
                left(measured.error, 400) AS error, measured.run_id, measured.document_id,
                coalesce(runs_run.invalid_reason, '') AS invalid_reason,
                series.backend, series.target_id, catalog_case.kind, catalog_case.label, catalog_case.dtype,
                catalog_case.params::text AS params, catalog_stack.components::text AS components
            FROM unnest(%s::timestamptz[], %s::int8[]) AS wanted (measured_at, id)
            JOIN runs_measurement AS measured
                ON measured.measured_at = wanted.measured_at AND measured.id = wanted.id
            JOIN catalog_series AS series ON series.id = measured.series_id
            JOIN catalog_case ON catalog_case.id = series.case_id
            JOIN catalog_stack ON catalog_stack.id = measured.stack_id
            LEFT JOIN runs_run ON runs_run.id = measured.run_id
            """,
            [list(column) for column in zip(*keys, strict=True)],
        )
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    targets = Target.objects.in_bulk({row["target_id"] for row in rows})
    return {row["id"]: {**row, "target": targets[row["target_id"]]} for row in rows}


def _row(row: Sequence[Any], detail: Mapping[int, dict[str, Any]]) -> Row:
    kind, dtype, verdict, reason, host, ratio, low, high, old_low, old_high, new_low, new_high, *ids = row
    old, new = detail.get(ids[1]), detail.get(ids[3])
    return Row(
        case=(old or new or {}).get("label", ""),
        kind=kind,
        dtype=dtype,
        verdict=verdict,
        reason=reason,
        host_verdict=host,
        ratio=ratio,
        interval=Ratio(ratio, low, high) if ratio and low is not None else None,
        before=_half(old, old_low, old_high) if old else None,
        after=_half(new, new_low, new_high) if new else None,
    )


def _half(row: Mapping[str, Any], low: float | None, high: float | None) -> Half:
    href, source = source_of(row)
    share = _of_roofline(row) if may_rank(row["outcome"], row["flags"]) else None
    return Half(
        backend=row["backend"],
        library=library_of(row["backend"]) or "",
        seconds=row["median"],
        low=low,
        high=high,
        host=row["host_median"],
        of_roofline=None if share is None else share / 100,
        outcome=row["outcome"],
        flags=tuple(row["flags"]),
        timer=TIMERS.get(row["timer"], row["timer"]),
        l2_policy=row["l2_policy"],
        error=row["error"],
        invalid_reason=row["invalid_reason"],
        href=href,
        source=source,
        again=_again(row),
    )


def _of_roofline(row: Mapping[str, Any]) -> float | None:
    """Share of the roofline in percent, as the trends page has it; None where no ceiling is known."""
    work = counted(row["kind"], json.loads(row["params"]), row["flops"], row["bytes"])
    return value("roofline", row["median"], work.flops, work.moved, work.ceiling(row["target"]))


def _again(row: Mapping[str, Any]) -> str:
    """The address that measures it again; "" of what somebody else measured."""
    if "imported" in row["flags"]:
        return ""
    return again.of_point(
        json.loads(row["components"]), row["target"].key, row["kind"], json.loads(row["params"])
    )


def export() -> bytes:
    """Every pair as CSV, times in seconds; written by Postgres."""
    texts = ("kind", "dtype", "shape", "size", "old_backend", "new_backend")
    names = (*texts[:4], "backend_before", "backend_after")
    # what a spreadsheet would take for a formula is made plain text
    safe = [
        f"regexp_replace({text}::text, '^(?=[-=+@[:space:]])', chr(39)) AS {name}"
        for text, name in zip(texts, names, strict=True)
    ]
    query = f"""
        COPY (
            SELECT {", ".join(safe)}, before AS before_s, after AS after_s,
                ratio, low AS ratio_low, high AS ratio_high, verdict, reason,
                host_before AS host_before_s, host_after AS host_after_s, host_verdict
            FROM compare_pair WHERE verdict <> 'neither' ORDER BY verdict, {ORDERS["effect"]}, {THEN}
        ) TO STDOUT (FORMAT CSV, HEADER)
    """
    with connection.cursor() as cursor, cursor.copy(query) as rows:
        return b"".join(bytes(piece) for piece in rows)
