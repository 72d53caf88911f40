"""Measurements, their samples, and the newest of each series."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection
from psycopg.types.json import Jsonb

from benchapp.alerts import watching
from benchapp.catalog.models import Configuration, Target
from benchapp.ingest import bulk, schema
from benchapp.ingest.identities import configuration_of, series_of
from benchapp.ingest.impossible import is_impossible
from benchapp.ingest.incoming import Incoming
from benchapp.runs.models import Document
from benchapp.runs.ranking import NEVER_RANKS, RANKED_OUTCOMES
from benchapp.trends import actions as trends

COLUMNS = {
    "measured_at": "timestamptz",
    "id": "int8",
    "document_id": "int8",
    "run_id": "int8",
    "series_id": "int8",
    "stack_id": "int8",
    "outcome": "varchar",
    "flags": "varchar[]",
    "n": "int4",
    "median": "float8",
    "q1": "float8",
    "q3": "float8",
    "min": "float8",
    "host_median": "float8",
    "host_q1": "float8",
    "host_q3": "float8",
    "discarded": "int4",
    "process_medians": "float8[]",
    "process_host_medians": "float8[]",
    "timer": "varchar",
    "l2_policy": "varchar",
    "pdl": "bool",
    "inputs": "varchar",
    "kernel": "varchar",
    "flops": "float8",
    "bytes": "float8",
    "reference": "varchar",
    "cosine": "float8",
    "max_relative_error": "float8",
    "tolerance": "float8",
    "nan_count": "int8",
    "zero_count": "int8",
    "elements": "int8",
    "sm_clock_mhz_min": "float8",
    "sm_clock_mhz_median": "float8",
    "sm_clock_mhz_max": "float8",
    "power_w": "float8",
    "temperature_c": "float8",
    "throttle_reasons": "varchar[]",
    "facts": "jsonb",
    "error": "text",
}


def _rows(
    row: Document, items: Sequence[schema.Measurement], target: Target, ids: list[int], series_ids: list[int]
) -> Iterator[tuple[Any, ...]]:
    for number, series, item in zip(ids, series_ids, items, strict=True):
        flags: list[str] = [*item.flags]
        if is_impossible(item, target):
            flags.append("impossible")
        time, host, check = item.statistics, item.host_time, item.correctness
        seen = item.readings or schema.Readings()
        yield (
            item.measured_at, number, row.pk, row.run_id, series, row.stack_id, item.outcome, flags,
            time.n if time else 0,
            *((time.median, time.q1, time.q3, time.min) if time else (None,) * 4),
            *((host.median, host.q1, host.q3) if host else (None,) * 3),
            item.discarded, list(item.process_medians), list(item.process_host_medians),
            item.timer or "", item.l2_policy, item.pdl, item.inputs or "", item.kernel or "",
            item.flops, item.bytes,
            *(
                (check.reference, check.cosine, check.max_relative_error, check.tolerance,
                 check.nan_count, check.zero_count, check.elements)
                if check else ("", *(None,) * 6)
            ),
            seen.sm_clock_mhz_min, seen.sm_clock_mhz_median, seen.sm_clock_mhz_max,
            seen.power_w, seen.temperature_c, list(seen.throttle_reasons), _facts(item), item.error or "",
        )  # fmt: skip


def _facts(item: schema.Measurement) -> Jsonb | None:
    """What only whole models, servers or layers with experts have, as the document writes it."""
    told = item.step or item.serving
    if told is not None:
        return Jsonb(told.model_dump(mode="json"))
    return Jsonb({"routing": list(item.routing)}) if item.routing else None


def store(row: Document, opened: Incoming, target: Target) -> int:
    """Write all measurements of a document; returns how many."""
    configuration: Configuration | None = None
    moments: list[dt.datetime] = []
    timed: list[trends.Timed] = []
    for items in filter(None, opened.batches()):
        configuration = configuration or configuration_of(opened.document)
        _write(row, items, target, configuration)
        moments += (item.measured_at for item in items)
        timed += (
            (item.kind, item.params, item.backend or "", item.measured_at)
            for item in items
            if item.metric == "time"
        )
    if moments:
        watching.mark_document(row.pk, min(moments), max(moments))
        _refresh_latest(row.pk, min(moments), max(moments))
    trends.note(target.pk, timed)
    return len(moments)


def _write(
    row: Document, items: Sequence[schema.Measurement], target: Target, configuration: Configuration
) -> None:
    ids = bulk.next_ids("runs_measurement_id_seq", len(items))
    # before COPY begins: the connection can do nothing else until it ends
    series_ids = series_of(items, target, configuration)
    bulk.copy("runs_measurement", COLUMNS, _rows(row, items, target, ids, series_ids))
    bulk.copy(
        "runs_sample",
        {"measured_at": "timestamptz", "measurement_id": "int8", "values": "float8[]"},
        (
            (item.measured_at, number, list(item.samples))
            for number, item in zip(ids, items, strict=True)
            if item.samples
        ),
    )


def _refresh_latest(document_id: int, first: Any, last: Any) -> None:
    """Move each touched series' newest measurement and newest ranked one forward, never back.

    Borrowed numbers are another version's: they are never the newest of a series.
    The bounds on measured_at keep the scan to the partitions of this document.
    """
    window = {"document": document_id, "first": first, "last": last}
    ranked = {"outcomes": list(RANKED_OUTCOMES), "never": list(NEVER_RANKS)}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_latest (series_id, measurement_id, measured_at, outcome, flags, median)
            SELECT DISTINCT ON (series_id) series_id, id, measured_at, outcome, flags, median
            FROM runs_measurement
            WHERE document_id = %(document)s AND measured_at BETWEEN %(first)s AND %(last)s
                AND NOT flags && '{borrowed}'::varchar[]
            ORDER BY series_id, measured_at DESC, id DESC
            ON CONFLICT (series_id) DO UPDATE SET
                measurement_id = excluded.measurement_id, measured_at = excluded.measured_at,
                outcome = excluded.outcome, flags = excluded.flags, median = excluded.median
            WHERE excluded.measured_at >= runs_latest.measured_at
            """,
            window,
        )
        cursor.execute(
            """
            UPDATE runs_latest SET
                good_measurement_id = good.id, good_measured_at = good.measured_at, good_median = good.median
            FROM (
                SELECT DISTINCT ON (series_id) series_id, runs_measurement.id, measured_at, median
                FROM runs_measurement
                WHERE document_id = %(document)s AND measured_at BETWEEN %(first)s AND %(last)s
                    AND outcome = ANY(%(outcomes)s) AND NOT flags && %(never)s::varchar[]
                    AND NOT flags && '{borrowed}'::varchar[]
                    AND NOT EXISTS (SELECT FROM runs_run WHERE runs_run.id = run_id AND invalid_reason <> '')
                ORDER BY series_id, measured_at DESC, id DESC
            ) AS good
            WHERE runs_latest.series_id = good.series_id
                AND (runs_latest.good_measured_at IS NULL OR good.measured_at >= runs_latest.good_measured_at)
            """,
            window | ranked,
        )
