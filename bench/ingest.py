"""Documents into measurements, samples and the latest of each series; against COPY of the same rows alone."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection, transaction

from bench.result import Result, timed
from bench.stand import Stand

TABLES = ("runs_measurement", "runs_sample")


def run(stand: Stand) -> Iterator[Result]:
    filled = stand.filled
    rows = {table: _read(table) for table in TABLES}
    yield Result(
        f"ingest of {filled.measurements:,} measurements in {filled.documents:,} documents",
        filled.seconds,
        "binary COPY of their rows, no index",
        timed(lambda: _write(rows)),
        f"{filled.measurements / filled.seconds:,.0f} measurements/s",
    )


def _read(table: str) -> list[bytes]:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY (TABLE {table}) TO STDOUT (FORMAT BINARY)") as rows,
    ):
        return [bytes(chunk) for chunk in rows]


def _write(rows: dict[str, list[bytes]]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for table, chunks in rows.items():
            cursor.execute(f"CREATE TABLE bench_{table} (LIKE {table})")
            with cursor.copy(f"COPY bench_{table} FROM STDIN (FORMAT BINARY)") as sink:
                for chunk in chunks:
                    sink.write(chunk)
