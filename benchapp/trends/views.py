"""The trends page: a measured case over batch size, versions or time, with the ceiling of its hardware."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.trends import charts, queries, words
from benchapp.trends.forms import TrendsForm
from benchapp.trends.utilisation import METRICS, why_no_ceiling


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    offers = queries.offers()
    targets = queries.targets({offer.target_id for offer in offers})
    form = TrendsForm.read(request.GET, offers=offers, targets=targets)
    target = next((each for each in targets if str(each.pk) == form.values["target"]), None)
    if target is None:
        return render(request, "trends/index.html", {"form": form})
    view, metric, shape = (form.values[name] for name in ("view", "metric", "shape"))
    found, capped = queries.points(
        target,
        form.values["kind"],
        shape or "",
        dtype=form.values["dtype"] or "",
        backend=form.values["backend"] or "",
        component=form.values["component"],
        every=view == "time",
    )
    ms = sorted({point.m for point in found})
    chosen = form.extents() or (set(ms) if view == "batch" else set(charts.spread(ms)))
    shown = [point for point in found if point.m in chosen]
    versions = {point.version for point in shown}
    drawn = any(value is not None for point in shown for value in [point.at(metric, point.median)])
    missing = next((why_no_ceiling(target, point.dtype) for point in shown if point.limit is None), "")
    context: dict[str, Any] = {
        "form": form,
        "target": target,
        "shape": (shape or "").replace("x", "×"),
        "points": shown,
        "rows": [_row(point) for point in shown],
        "chart": _chart(view, shown, metric, shape or "", form.values["component"]) if drawn else None,
        "metric": METRICS[metric],
        "headline": words.headline(shown),
        "bound": words.about_bound(shown),
        "standing": words.left_standing(shown),
        "how": words.how(shown),
        "ceilings": words.ceilings(shown),
        "missing": missing,
        "recorded": queries.is_recorded(shown),
        "measured": max((point.measured_at for point in shown), default=None),
        "single_version": next(iter(versions)) if view == "versions" and len(versions) == 1 else "",
        "left_out": sorted(set(ms) - chosen) if not form.extents() else [],
        "capped": queries.MAX_POINTS if capped else None,
    }
    return render(request, "trends/index.html", context)


def _row(point: queries.Point) -> dict[str, Any]:
    """One line of the table: FLOP/s, bytes/s and fractions, for the unit filters."""
    value = {name: point.at(name, point.median) for name in METRICS}
    scaled = (
        ("rate", "tflops", 1e12),
        ("peak", "peak", 0.01),
        ("roofline", "roofline", 0.01),
        ("gbs", "gbs", 1.0),
    )
    return {
        "point": point,
        **{key: None if value[name] is None else value[name] * scale for key, name, scale in scaled},  # type: ignore[operator]
    }


def _chart(view: str, points: list[queries.Point], metric: str, shape: str, component: str) -> dict[str, Any]:
    if view == "versions":
        return charts.version_chart(points, metric, component)
    if view == "time":
        return charts.time_chart(points, metric)
    return charts.batch_chart(points, metric, shape)
