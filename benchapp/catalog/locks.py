"""Postgres advisory locks by name."""

from __future__ import annotations

import hashlib

from django.db import connection


def lock(name: str) -> None:
    """Hold the lock of that name until the transaction ends; whoever else wants it waits."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])
