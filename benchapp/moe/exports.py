"""The steps of a selection as CSV and JSON: every version that is shown at most, seconds and bytes."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from django.http import HttpResponse, JsonResponse

from benchapp.moe.change import Change
from benchapp.moe.points import Point
from benchapp.runs.steps import PARTS
from benchapp.runs.tables import Plain, safe_cell

COLUMNS = (
    "phase", "model", "layers", "layers_total", "batch", "context", "tp", "ep", "dtype", "version",
    "backend", "configuration", "gpu", "measured_at", "outcome", "flags", "ranked", "error",
    "tokens_per_second", "projected", "tokens", "steps", "window_seconds", "median_step_seconds",
    "q1_seconds", "q3_seconds", "change_percent", "change_verdict", "roofline_share",
    "roofline_and_launches_share", "tokens_per_second_per_gpu", "tokens_per_joule", "power_watts",
    "weight_bytes", "kv_bytes", "peak_memory_bytes", "experts_hit", "kernels", "traced_seconds",
    "overlap_seconds", *(f"{part}_seconds" for part in PARTS),
)  # fmt: skip


def rows(points: Sequence[tuple[Point, Change | None]]) -> list[dict[str, Plain]]:
    """One row a measurement; times and rates only of what may rank as a speed."""
    return [{name: _row(point, change).get(name) for name in COLUMNS} for point, change in points]


def _row(point: Point, change: Change | None) -> dict[str, Plain]:
    case, step = point.case, point.ranked
    told: dict[str, Plain] = {
        "phase": case.kind, "model": case.model, "layers": case.layers,
        "layers_total": case.layout.model.layers, "batch": case.batch, "context": case.context,
        "tp": case.tp, "ep": case.ep, "dtype": case.dtype, "version": point.version,
        "backend": point.backend, "configuration": point.configuration, "gpu": point.place,
        "measured_at": point.measured_at.isoformat(), "outcome": point.outcome,
        "flags": " ".join(point.flags), "ranked": "no" if point.mark else "yes", "error": point.remark,
    }  # fmt: skip
    if step is None or point.time is None:
        return told
    told |= {
        "tokens_per_second": point.rate, "projected": point.sliced, "tokens": step.tokens,
        "steps": step.steps, "window_seconds": step.window_s, "median_step_seconds": point.time[0],
        "q1_seconds": point.time[1], "q3_seconds": point.time[2],
        "change_percent": change.percent if change else None,
        "change_verdict": change.verdict if change else None, "roofline_share": point.share,
        "roofline_and_launches_share": point.share_with_launches,
        "tokens_per_second_per_gpu": point.per_gpu, "tokens_per_joule": point.per_watt,
        "power_watts": step.power_w, "weight_bytes": step.weight_bytes, "kv_bytes": step.kv_bytes,
        "peak_memory_bytes": step.peak_memory_bytes, "experts_hit": step.experts_hit,
        "kernels": step.kernels, "traced_seconds": step.traced_s, "overlap_seconds": step.overlap_s,
    }  # fmt: skip
    return told | {f"{part}_seconds": seconds for part, seconds in step.parts.items()}


def as_csv(found: Sequence[dict[str, Plain]]) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="moe-steps.csv"'
    writer = csv.DictWriter(response, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: safe_cell(value) for name, value in row.items()})
    return response


def as_json(found: Sequence[dict[str, Plain]]) -> JsonResponse:
    return JsonResponse({"steps": found})


def refused(faults: Sequence[str]) -> HttpResponse:
    """A page may fall back to a default and say so. A table must not: 404, with the sentence."""
    return HttpResponse(f"{faults[0]}\n", status=404, content_type="text/plain; charset=utf-8")
