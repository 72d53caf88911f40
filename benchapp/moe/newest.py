"""The newest measurement of each series and stack, for the pages of servers and of collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Case as Choice
from django.db.models import QuerySet, When

from benchapp.catalog.models import Series
from benchapp.runs.models import Measurement
from benchapp.runs.ranking import may_rank

#: Rows of one page; the oldest are left out, and the page says so.
MAX_ROWS = 500
MAX_SERIES = 2000
#: How a page marks what is no speed: its glyph and the role of its colour.
GLYPHS = {"failed": "▲", "incorrect": "≠", "unsupported": "–", "invalid": "~"}
ROLES = {"failed": "failed", "incorrect": "incorrect", "unsupported": "", "invalid": "uncertain"}
Row = Mapping[str, Any]


def newest(series: QuerySet[Series]) -> tuple[list[Row], bool]:
    """(rows, newest first; whether there were more than MAX_ROWS). Of runs marked invalid only where a series
    and stack have no other."""
    keys = list(series.order_by("-pk").values_list("pk", flat=True)[:MAX_SERIES])
    marked = Choice(When(run__invalid_reason__gt="", then=1), default=0)
    rows = (
        Measurement.objects.filter(series__in=keys)
        .order_by("series_id", "stack_id", marked, "-measured_at", "-id")
        .distinct("series_id", "stack_id")
        .values(
            "measured_at", "outcome", "flags", "median", "q1", "q3", "n", "timer", "facts", "error",
            "reference", "cosine", "max_relative_error", "nan_count", "elements", "run_id", "document_id",
            "stack_id", "stack__components", "series__backend", "series__case__params",
            "series__configuration__settings", "document__origin", "document__facts__notes",
            "document__facts__properties", "run__invalid_reason",
        )
    )  # fmt: skip
    found: list[Row] = sorted(rows, key=lambda row: row["measured_at"], reverse=True)
    return found[:MAX_ROWS], len(found) > MAX_ROWS


def mark_of(row: Row) -> str:
    """ "" where a row may stand as a speed, else how it is marked: a key of GLYPHS."""
    if row["median"] is not None and may_rank(row["outcome"], row["flags"], row["run__invalid_reason"] or ""):
        return ""
    if row["outcome"] in ("incorrect", "unsupported"):
        return str(row["outcome"])
    return "invalid" if row["outcome"] in ("ok", "unverified") else "failed"


def notes_of(rows: Iterable[Row]) -> list[str]:
    """What the documents of these rows say that a reader must know, each sentence once."""
    return list(dict.fromkeys(note for row in rows for note in row["document__facts__notes"] or ()))
