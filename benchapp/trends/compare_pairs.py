"""Pairs of measurements of two sides, made and judged in Postgres: no Python object a pair.

`pairs` makes the temporary table `compare_pair`, which lives as long as the transaction. What only samples
can decide is left open there and judged by `compare_stats`, pair by pair; no other pair leaves Postgres.
"""

# Only text of this module is put into statements; every value travels as a parameter.
# ruff: noqa: S608

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection

from benchapp.runs.ranking import DOUBTFUL, NEVER_RANKS, RANKED_OUTCOMES
from benchapp.trends import compare_stats as stats
from benchapp.trends.compare_sides import Side

#: Pairs judged at a time, which bounds the samples held in memory.
BATCH = 500
#: Longer than any page needs; a comparison that takes it is refused with a sentence.
TIMEOUT_MS = 20_000

#: The newest of each side, case and backend; invalid or borrowed only where there is no other.
_MEASURED = """
    SELECT DISTINCT ON (is_new, series.case_id, series.backend)
        is_new, series.case_id, series.backend, series.target_id, series.configuration_id,
        catalog_case.kind, catalog_case.dtype, catalog_case.shape, catalog_case.size,
        CASE WHEN catalog_case.kind = 'sampling' THEN series.backend ELSE '' END AS computes,
        measured.id, measured.measured_at, measured.series_id, measured.stack_id, measured.n, measured.median,
        measured.host_median, measured.timer, measured.l2_policy,
        cardinality(measured.process_host_medians) AS host_processes,
        coalesce(runs_run.invalid_reason, '') <> '' AS invalid,
        'borrowed' = ANY(measured.flags) AS borrowed,
        measured.outcome = 'incorrect' OR measured.flags && %(never)s::varchar[] AS wrong,
        measured.flags && %(doubtful)s::varchar[] AS doubtful,
        measured.outcome = ANY(%(ranked)s) AND NOT measured.flags && %(never)s::varchar[]
            AND coalesce(runs_run.invalid_reason, '') = '' AND measured.median > 0 AS ranks
    FROM runs_measurement AS measured
    CROSS JOIN (VALUES (false), (true)) AS side (is_new)
    JOIN catalog_series AS series ON series.id = measured.series_id
    JOIN catalog_case ON catalog_case.id = series.case_id
    LEFT JOIN runs_run ON runs_run.id = measured.run_id
    WHERE {where}
    ORDER BY is_new, series.case_id, series.backend, invalid, borrowed,
        measured.measured_at DESC, measured.id DESC
"""
#: The fastest backend of each case that may rank; one that may not only where there is no other. Backends of
#: sampling are the orders of its filters, which draw from different distributions: none stands for another.
_BEST = """
    SELECT DISTINCT ON (case_id, computes) * FROM measurement WHERE is_new = {is_new}
    ORDER BY case_id, computes, NOT ranks, borrowed, NOT wrong, median NULLS LAST, backend
"""
#: What is incorrect on a side, with the same backend of the other.
_WRONG = """
    SELECT * FROM measurement WHERE is_new = {is_new}
        AND (case_id, backend) IN (SELECT case_id, backend FROM measurement WHERE wrong)
"""
#: Why a pair is what it is; the first that holds.
_PAIR = """
    SELECT coalesce(old.case_id, new.case_id) AS case_id, coalesce(old.kind, new.kind) AS kind,
        coalesce(old.dtype, new.dtype) AS dtype, coalesce(old.shape, new.shape) AS shape,
        coalesce(old.size, new.size) AS size,
        old.id AS old_id, old.measured_at AS old_at, old.series_id AS old_series, old.stack_id AS old_stack,
        old.backend AS old_backend, new.id AS new_id, new.measured_at AS new_at, new.series_id AS new_series,
        new.stack_id AS new_stack, new.backend AS new_backend,
        CASE WHEN old.ranks AND NOT old.borrowed THEN old.median END AS before,
        CASE WHEN new.ranks AND NOT new.borrowed THEN new.median END AS after,
        CASE WHEN old.ranks AND new.ranks THEN old.host_median END AS host_before,
        CASE WHEN old.ranks AND new.ranks THEN new.host_median END AS host_after,
        least(old.host_processes, new.host_processes) AS host_processes,
        CASE
            WHEN coalesce(old.wrong, false) OR coalesce(new.wrong, false) THEN 'incorrect'
            WHEN coalesce(old.invalid, false) OR coalesce(new.invalid, false) THEN 'invalid'
            WHEN coalesce(old.borrowed, false) OR coalesce(new.borrowed, false) THEN 'borrowed'
            WHEN NOT coalesce(old.ranks, false) AND NOT coalesce(new.ranks, false) THEN 'neither'
            WHEN old.id IS NULL THEN 'new'
            WHEN new.id IS NULL THEN 'lost'
            WHEN NOT old.ranks THEN 'new_outcome'
            WHEN NOT new.ranks THEN 'lost_outcome'
            WHEN old.doubtful OR new.doubtful THEN 'flags'
            WHEN old.timer <> new.timer THEN 'timer'
            WHEN old.l2_policy <> new.l2_policy THEN 'l2_policy'
            WHEN old.target_id = new.target_id AND old.configuration_id <> new.configuration_id
                THEN 'configuration'
            WHEN old.timer = 'cuda_events' AND (
                old.median < old.host_median * %(host_bound)s OR new.median < new.host_median * %(host_bound)s
            ) THEN 'host_bound'
            WHEN old.n > 1 AND new.n > 1 THEN 'interval'
            ELSE 'single'
        END AS reason
    FROM ({old}) AS old FULL JOIN ({new}) AS new ON old.case_id = new.case_id {and_backend}
"""
_TABLE = """
CREATE TEMPORARY TABLE compare_pair ON COMMIT DROP AS
WITH measurement AS MATERIALIZED ({measured}), pair AS ({pair})
SELECT pair.*, after / before AS ratio,
    NULL::float8 AS old_low, NULL::float8 AS old_high, NULL::float8 AS new_low, NULL::float8 AS new_high,
    NULL::float8 AS low, NULL::float8 AS high,
    CASE
        WHEN reason IN ('new', 'lost', 'new_outcome', 'lost_outcome') THEN 'missing'
        WHEN reason IN ('incorrect', 'neither') THEN reason
        WHEN reason <> 'single' THEN 'uncertain'
        WHEN after > before * %(single)s THEN 'worse'
        WHEN before > after * %(single)s THEN 'better'
        ELSE 'same'
    END AS verdict,
    CASE WHEN host_before > 0 AND host_after > 0 THEN 'uncertain' ELSE '' END AS host_verdict
FROM pair
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Narrow:
    """Which cases and backend are compared; empty: all."""

    kind: str = ""
    dtype: str = ""
    shape: str = ""
    shapes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    backend: str = ""


def pairs(before: Side, after: Side, narrow: Narrow, *, by_backend: bool) -> None:
    """Fill `compare_pair` with every pair of the two sides. Call it in a transaction.

    `by_backend`: a case is paired once for each backend of the same name. Else with the fastest backend of
    each side, and what is incorrect stands beside it, backend by backend.
    """
    values: dict[str, Any] = {
        "ranked": list(RANKED_OUTCOMES),
        "never": list(NEVER_RANKS),
        "doubtful": list(DOUBTFUL),
        "single": 1 + stats.SINGLE_MARGIN,
        "host_bound": stats.HOST_BOUND,
        "documents": [*before.documents, *after.documents],
    }
    where = ["series.metric = 'time'", "measured.document_id = ANY(%(documents)s)"]
    taken = []
    for name, side in (("before", before), ("after", after)):
        mine = ["is_new" if side is after else "NOT is_new", f"measured.document_id = ANY(%({name})s)"]
        values[name] = list(side.documents)
        for limit, compared in (("since", ">="), ("until", "<")):
            if (moment := getattr(side, limit)) is not None:
                values[f"{name}_{limit}"] = moment
                mine.append(f"measured.measured_at {compared} %({name}_{limit})s")
        taken.append(" AND ".join(mine))
    where.append(f"({' OR '.join(taken)})")
    for name, table in (
        ("kind", "catalog_case"),
        ("dtype", "catalog_case"),
        ("shape", "catalog_case"),
        ("backend", "series"),
    ):
        if value := getattr(narrow, name):
            values[name] = value
            where.append(f"{table}.{name} = %({name})s")
    for name, column in (("shapes", "shape"), ("sizes", "size")):
        if several := getattr(narrow, name):
            values[name] = list(several)
            where.append(f"catalog_case.{column} = ANY(%({name})s)")
    pair = _pair("SELECT * FROM measurement WHERE is_new = {is_new}", "AND old.backend = new.backend")
    if not by_backend:
        wrong = _pair(_WRONG, "AND old.backend = new.backend")
        best = _pair(_BEST, "AND old.computes = new.computes")
        pair = f"SELECT * FROM ({best}) AS best WHERE reason <> 'incorrect' UNION ALL {wrong}"
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {TIMEOUT_MS}")
        cursor.execute("SET LOCAL work_mem = '128MB'; SET LOCAL jit = off")
        cursor.execute("DROP TABLE IF EXISTS compare_pair")
        measured = _MEASURED.format(where=" AND ".join(where))
        cursor.execute(_TABLE.format(measured=measured, pair=pair), values)
    _judge_samples()
    _judge_host()


def _pair(side: str, and_backend: str) -> str:
    old, new = (side.format(is_new=is_new) for is_new in ("false", "true"))
    return _PAIR.format(old=old, new=new, and_backend=and_backend)


def _judge_samples() -> None:
    """Decide the pairs whose sides both have samples, and store their intervals."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT old_id, old_at, old_series, old_stack, new_id, new_at, new_series, new_stack, "
            "before, after FROM compare_pair WHERE reason = 'interval' ORDER BY old_id"
        )
        open_pairs = cursor.fetchall()
        for start in range(0, len(open_pairs), BATCH):
            batch = open_pairs[start : start + BATCH]
            found = _estimates([(row[0], row[1], row[2], row[3]) for row in batch])
            found |= _estimates([(row[4], row[5], row[6], row[7]) for row in batch])
            judged = list(_judged([(row[0], row[4], row[8], row[9]) for row in batch], found))
            cursor.execute(
                """
                UPDATE compare_pair SET verdict = judged.verdict, reason = judged.reason,
                    old_low = judged.old_low, old_high = judged.old_high, new_low = judged.new_low,
                    new_high = judged.new_high, low = judged.low, high = judged.high
                FROM unnest(%s::int8[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::float8[],
                    %s::float8[], %s::float8[], %s::float8[])
                    AS judged (old_id, verdict, reason, old_low, old_high, new_low, new_high, low, high)
                WHERE compare_pair.old_id = judged.old_id AND compare_pair.reason = 'interval'
                """,
                [list(column) for column in zip(*judged, strict=True)],
            )


def _judged(
    rows: Sequence[tuple[int, int, float, float]], found: dict[int, stats.Estimate | None]
) -> Iterator[tuple[Any, ...]]:
    for old_id, new_id, before, after in rows:
        if old_id not in found or new_id not in found:  # statistics alone, whose samples were not kept
            yield (old_id, stats.judge_single(before, after), "single", *(None,) * 6)
            continue
        old, new = found[old_id], found[new_id]
        if old is None or new is None:
            yield (old_id, "uncertain", "few", *(None,) * 6)
            continue
        verdict, ratio = stats.judge(old, new)
        reason = "repeated" if old.repeated and new.repeated else "once"
        yield old_id, verdict, reason, old.low, old.high, new.low, new.high, ratio.low, ratio.high


def _estimates(keys: Sequence[tuple[int, Any, int, int]]) -> dict[int, stats.Estimate | None]:
    """The estimate of each measurement that kept samples, from these, its processes, and other runs of its
    series and stack; None where the samples are too few."""
    columns = [list(column) for column in zip(*keys, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT wanted.id, sample.values, measured.process_medians, runs.medians
            FROM unnest(%s::int8[], %s::timestamptz[], %s::int8[], %s::int8[])
                AS wanted (id, measured_at, series_id, stack_id)
            JOIN runs_measurement AS measured
                ON measured.measured_at = wanted.measured_at AND measured.id = wanted.id
            JOIN runs_sample AS sample
                ON sample.measured_at = wanted.measured_at AND sample.measurement_id = wanted.id
            LEFT JOIN LATERAL (
                SELECT array_agg(other.median) AS medians FROM runs_measurement AS other
                LEFT JOIN runs_run ON runs_run.id = other.run_id
                WHERE other.series_id = wanted.series_id AND other.stack_id = wanted.stack_id
                    AND other.outcome = ANY(%s) AND NOT other.flags && %s::varchar[] AND other.median > 0
                    AND other.timer = measured.timer AND other.l2_policy = measured.l2_policy
                    AND coalesce(runs_run.invalid_reason, '') = ''
            ) AS runs ON true
            """,
            [*columns, list(RANKED_OUTCOMES), [*NEVER_RANKS, *DOUBTFUL, "borrowed"]],
        )
        return {row[0]: stats.estimate(row[1], row[2], row[3] or ()) for row in cursor.fetchall()}


def _judge_host() -> None:
    """Decide on host time where both sides measured it in enough processes; else it stays uncertain."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT old_id, old.process_host_medians, new.process_host_medians
            FROM compare_pair
            JOIN runs_measurement AS old ON old.measured_at = old_at AND old.id = old_id
            JOIN runs_measurement AS new ON new.measured_at = new_at AND new.id = new_id
            WHERE host_verdict <> '' AND host_processes >= %s
            """,
            [stats.FEWEST_PROCESSES],
        )
        judged = [(row[0], stats.judge_host(row[1], row[2])) for row in cursor.fetchall()]
        if judged:
            cursor.execute(
                "UPDATE compare_pair SET host_verdict = judged.verdict "
                "FROM unnest(%s::int8[], %s::text[]) AS judged (old_id, verdict) "
                "WHERE compare_pair.old_id = judged.old_id AND host_verdict <> ''",
                [list(column) for column in zip(*judged, strict=True)],
            )
