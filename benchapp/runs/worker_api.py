"""The functions through which workers reach the database, and who may call them."""

from __future__ import annotations

from pathlib import Path

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

SQL = Path(__file__).with_name("worker_api.sql")
#: What a host's role may call. The functions beside them serve these.
CALLABLE = (
    "claim(int, text[], text, text, text[])",
    "beat(bigint, int, jsonb, text, jsonb, text[], text[])",
    "end_attempt(bigint, int, text, text, text, jsonb)",
    "deliver(bigint, int, bytea, jsonb)",
    "release(text, int)",
    "under_way(text)",
)


def apply(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """For a migration: make the functions what the file says."""
    editor.execute(SQL.read_text(encoding="utf-8"), params=None)
