"""What ingest tells the trends page, in its own transaction."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db import connection

from benchapp.catalog.digests import case_sweep
from benchapp.trends.models import ELSEWHERE

#: (kind, parameters, backend, when) of one measurement of time
Timed = tuple[str, dict[str, Any], str, dt.datetime]


def note(target_id: int, timed: Iterable[Timed]) -> int:
    """Offer what one document timed; returns how many combinations it holds.

    One statement a document. `cases` only grows: a run of one case alone hides no sweep.
    Kinds that are ELSEWHERE are not offered.
    """
    cases: dict[tuple[str, str, str, str], set[int | str]] = defaultdict(set)
    newest: dict[tuple[str, str, str, str], dt.datetime] = {}
    for kind, params, backend, at in timed:
        if kind in ELSEWHERE:
            continue
        shape, dtype, size = case_sweep(kind, params)
        key = (kind, shape, dtype, backend)
        cases[key].add(str(params) if size is None else size)
        newest[key] = max(newest.get(key, at), at)
    if not cases:
        return 0
    rows = [(*key, len(cases[key]), newest[key]) for key in sorted(cases)]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO trends_offer (target_id, kind, shape, dtype, backend, cases, newest_at)
            SELECT %s, * FROM unnest(
                %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::timestamptz[]
            )
            ON CONFLICT (target_id, kind, shape, dtype, backend) DO UPDATE SET
                cases = greatest(trends_offer.cases, excluded.cases),
                newest_at = greatest(trends_offer.newest_at, excluded.newest_at)
            """,
            [target_id, *(list(column) for column in zip(*rows, strict=True))],
        )
    return len(rows)
