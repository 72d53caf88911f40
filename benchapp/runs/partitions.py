"""Monthly partitions of measurement and sample."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from django.db import connection, transaction

from benchapp.catalog.locks import lock

TABLES = ("runs_measurement", "runs_sample")


def month_of(moment: dt.datetime) -> dt.date:
    return moment.astimezone(dt.UTC).date().replace(day=1)


def next_month(month: dt.date) -> dt.date:
    return (month + dt.timedelta(days=32)).replace(day=1)


def ensure(moments: Iterable[dt.datetime]) -> None:
    """Create what is missing of the partitions that hold these moments.

    Runs in a transaction of its own and must come before rows are written: a row that landed in the
    DEFAULT partition would block the creation of its own.
    """
    months = sorted({month_of(moment) for moment in moments})
    wanted = {f"{table}_{month:%Y_%m}": (table, month) for month in months for table in TABLES}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relname = ANY(%s)", [list(wanted)])
        for (name,) in cursor.fetchall():
            del wanted[name]
        if not wanted:
            return
        lock("partitions")
        for name, (table, month) in wanted.items():
            # names and dates are made here from a date, nothing of them comes from outside
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF {table} "
                f"FOR VALUES FROM ('{month} 00:00+00') TO ('{next_month(month)} 00:00+00')"
            )


def rows_in_default() -> dict[str, int]:
    """Rows that found no partition of their own, by table (counted up to 1,000)."""
    counts = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table}_default LIMIT 1000) AS rows_seen")  # noqa: S608
            counts[table] = cursor.fetchone()[0]
    return counts
