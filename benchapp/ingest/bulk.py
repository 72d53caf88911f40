"""Set-based writes: COPY and INSERT … SELECT FROM unnest, never a statement a row."""

# Table and column names are constants of the callers; every value travels as a parameter.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection


def copy(table: str, columns: dict[str, str], rows: Iterable[Sequence[Any]]) -> None:
    """Binary COPY of rows; `columns` maps each column to its Postgres type."""
    names = ", ".join(f'"{name}"' for name in columns)
    statement = f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement) as sink:
        sink.set_types(list(columns.values()))
        for row in rows:
            sink.write_row(row)


def upsert(
    table: str, columns: dict[str, str], key: Sequence[str], rows: Sequence[Sequence[Any]]
) -> dict[tuple[Any, ...], int]:
    """Insert the rows whose key is not there yet; return the id of each row by its key."""
    if not rows:
        return {}
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    values = [list(column) for column in zip(*rows, strict=True)]
    positions = [list(columns).index(name) for name in key]
    keys = [values[position] for position in positions]
    key_names = ", ".join(f'"{name}"' for name in key)
    key_arrays = ", ".join(f"%s::{columns[name]}[]" for name in key)
    insert = (
        f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT ({key_names}) DO NOTHING"
    )
    wanted = f"SELECT * FROM unnest({key_arrays})"
    select = f"SELECT id, {key_names} FROM {table} WHERE ({key_names}) IN ({wanted})"
    with connection.cursor() as cursor:
        cursor.execute(insert, values)
        cursor.execute(select, keys)
        return {tuple(row[1:]): row[0] for row in cursor.fetchall()}


def next_ids(sequence: str, count: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(%s) FROM generate_series(1, %s)", [sequence, count])
        return [row[0] for row in cursor.fetchall()]
