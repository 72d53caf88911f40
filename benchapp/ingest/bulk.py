"""Set-based writes: COPY and INSERT … SELECT FROM unnest, never a statement a row."""

# Table and column names are constants of the callers; every value travels as a parameter.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from django.db import connection


def copy(table: str, columns: dict[str, str], rows: Iterable[Sequence[Any]]) -> None:
    """Binary COPY of rows; `columns` maps each column to its Postgres type. Raises Django's DatabaseError."""
    names = ", ".join(f'"{name}"' for name in columns)
    statement = f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)"
    # Django wraps the errors of execute, not those of copy
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as sink:
        sink.set_types(list(columns.values()))
        for row in rows:
            sink.write_row(row)


Key = tuple[Any, ...]


def _run(statement: str, columns: Iterable[Sequence[Any]]) -> psycopg.Cursor[Any]:
    """A statement with whole columns as its parameters, each at a %b: binary, since text would be escaped
    character by character. Raises Django's DatabaseError."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        return psycopg.Cursor(connection.connection).execute(statement, [list(column) for column in columns])


def find(table: str, columns: dict[str, str], keys: Sequence[Key]) -> dict[Key, int]:
    """The ids of the rows that have these keys, by key; `columns` are the key's, with their types."""
    if not keys:
        return {}
    names = ", ".join(f'"{name}"' for name in columns)
    wanted = ", ".join(f"%b::{kind}[]" for kind in columns.values())
    found = _run(
        f"SELECT id, {names} FROM {table} WHERE ({names}) IN (SELECT * FROM unnest({wanted}))",
        zip(*keys, strict=True),
    )
    return {tuple(row[1:]): row[0] for row in found.fetchall()}


def upsert(
    table: str, columns: dict[str, str], key: Sequence[str], rows: Sequence[Sequence[Any]]
) -> dict[Key, int]:
    """Insert the rows whose key is not there yet; return the id of each row by its key.

    Looks first: most rows are there from the night before, and an insert that finds a conflict costs
    several times a look.
    """
    key_columns = {name: columns[name] for name in key}
    positions = [list(columns).index(name) for name in key]
    by_key = {tuple(row[position] for position in positions): row for row in rows}
    known = find(table, key_columns, list(by_key))
    missing = [row for found, row in by_key.items() if found not in known]
    if not missing:
        return known
    names, key_names = (", ".join(f'"{name}"' for name in listed) for listed in (columns, key))
    arrays = ", ".join(f"%b::{kind}[]" for kind in columns.values())
    _run(
        f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT ({key_names}) DO NOTHING",
        zip(*missing, strict=True),
    )
    return known | find(table, key_columns, [found for found in by_key if found not in known])


def next_ids(sequence: str, count: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(%s) FROM generate_series(1, %s)", [sequence, count])
        return [row[0] for row in cursor.fetchall()]
