"""Hold a page to a number of queries, however many rows it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import CaptureQueriesContext


@contextmanager
def at_most(limit: int) -> Iterator[CaptureQueriesContext]:
    """Fail when the block sends more than `limit` queries, printing all that it sent."""
    with CaptureQueriesContext(connection) as queries:
        yield queries
    if len(queries) > limit:
        listing = "\n".join(f"{n:3}. {query['sql'][:400]}" for n, query in enumerate(queries, start=1))
        raise AssertionError(f"{len(queries)} queries, at most {limit} expected:\n{listing}")
