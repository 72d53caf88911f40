"""All changes of an alert as CSV and JSON, values in seconds, CPU seconds or bytes."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from django.http import HttpResponse, JsonResponse

from benchapp.alerts.detail import Moved
from benchapp.alerts.models import Alert
from benchapp.runs.tables import Plain, safe_cell

COLUMNS = (
    "case", "backend", "metric", "gpu", "host", "before", "after", "ratio", "low", "high", "confidence",
    "certain", "worse", "n_before", "n_after", "before_at", "at", "gone_at", "series",
)  # fmt: skip


def rows(moved: Sequence[Moved]) -> list[dict[str, Plain]]:
    return [_row(each) for each in moved]


def _row(moved: Moved) -> dict[str, Plain]:
    change = moved.change
    series = change.series
    return {
        "case": series.case.label, "backend": series.backend, "metric": series.metric,
        "gpu": str(series.target), "host": str(series.target.host or ""),
        "before": _number(change.before), "after": _number(change.after), "ratio": _number(change.ratio),
        "low": _number(change.low), "high": _number(change.high), "confidence": _number(change.confidence),
        "certain": "yes" if change.certain else "no", "worse": "yes" if change.worse else "no",
        "n_before": change.n_before, "n_after": change.n_after,
        "before_at": change.before_at.isoformat(), "at": change.at.isoformat(),
        "gone_at": change.gone_at.isoformat() if change.gone_at else None, "series": series.pk,
    }  # fmt: skip


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def as_csv(alert: Alert, found: Sequence[dict[str, Plain]]) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="alert-{alert.pk}-changes.csv"'
    writer = csv.writer(response)
    writer.writerow(COLUMNS)
    writer.writerows([safe_cell(row[name]) for name in COLUMNS] for row in found)
    return response


def as_json(alert: Alert, found: Sequence[dict[str, Plain]]) -> JsonResponse:
    return JsonResponse({"alert": alert.pk, "kind": alert.kind, "changes": list(found)})
