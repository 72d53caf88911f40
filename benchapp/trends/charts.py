"""Points to the JSON that `static/js/charts.js` draws. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from benchapp.catalog.versions import version_order
from benchapp.trends.queries import Point
from benchapp.trends.utilisation import METRICS, Ceiling, value
from workers.bench import roofline

#: More lines than this cannot be told apart.
MAX_LINES = 6
#: A logarithmic axis where values span more than this factor.
LOG_FROM = 12
#: Marks in place of a value: what the legend says, colour role, point style.
MARKS = {
    "failed": ("▲ failed", "failed", "triangle"),
    "incorrect": ("≠ wrong result", "incorrect", "crossRot"),
    "unsupported": ("– not supported", "unsupported", "line"),
    "invalid": ("~ invalid or impossible", "uncertain", "rectRot"),
}


def batch_chart(points: Sequence[Point], metric: str, shape: str) -> dict[str, Any]:
    """M on a logarithmic x, one line a dtype, version and backend, with the roofline of the shape."""
    ms = sorted({point.m for point in points if point.m})
    lines = _lines(points, _batch_label(points))
    series = [_line(label, of, metric, lambda point: point.m) for label, of in lines.items()]
    for dtype in dict.fromkeys(point.dtype for point in points):
        limit = next((point.limit for point in points if point.dtype == dtype), None)
        if limit is not None and shape and ms:
            series.append(_roofline(dtype, limit, metric, ms, shape))
    x: dict[str, Any] = {"title": "M (rows of A: tokens in the batch)", "type": "logarithmic", "ticks": ms}
    if ms:
        x |= {"min": ms[0] / 1.2, "max": ms[-1] * 1.2}
    return _chart(x, metric, series, points, lambda point: point.m)


def version_chart(points: Sequence[Point], metric: str, component: str) -> dict[str, Any]:
    """Versions in release order on x, one line a dtype, M and backend."""
    labels = sorted({point.version for point in points}, key=version_order)
    series = [
        _line(label, sorted(of, key=lambda p: version_order(p.version)), metric, lambda point: point.version)
        for label, of in _lines(points, _case_label(points)).items()
    ]
    x = {"title": component, "type": "category", "labels": labels}
    return _chart(x, metric, series, points, lambda point: point.version)


def time_chart(points: Sequence[Point], metric: str) -> dict[str, Any]:
    """When it was measured on x, one line a dtype, M and backend."""
    series = [
        _line(label, sorted(of, key=lambda p: p.measured_at), metric, _when)
        for label, of in _lines(points, _case_label(points)).items()
    ]
    # a run's cases lie seconds apart: an hour on either side keeps them from filling the whole axis
    x: dict[str, Any] = {"title": "Measured (your time zone)", "type": "time"}
    if points:
        times = sorted(point.measured_at for point in points)
        pad = max((times[-1] - times[0]) / 20, dt.timedelta(hours=1))
        x |= {"min": (times[0] - pad).isoformat(), "max": (times[-1] + pad).isoformat()}
    return _chart(x, metric, series, points, _when)


def spread(ms: Sequence[int]) -> list[int]:
    """At most MAX_LINES of them, the ends among them, evenly by rank."""
    if len(ms) <= MAX_LINES:
        return list(ms)
    return [ms[round(index * (len(ms) - 1) / (MAX_LINES - 1))] for index in range(MAX_LINES)]


def _when(point: Point) -> str:
    return point.measured_at.isoformat()


def _batch_label(points: Sequence[Point]) -> Callable[[Point], str]:
    backends = len({point.backend for point in points}) > 1
    return lambda p: f"{p.dtype}, {p.version}" + (f", {p.backend}" if backends else "")


def _case_label(points: Sequence[Point]) -> Callable[[Point], str]:
    backends = len({point.backend for point in points}) > 1
    return lambda p: f"M = {p.m:,}, {p.dtype}" + (f", {p.backend}" if backends else "")


def _lines(points: Sequence[Point], label: Callable[[Point], str]) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        lines[label(point)].append(point)
    return lines


def _line(label: str, points: Sequence[Point], metric: str, x: Callable[[Point], Any]) -> dict[str, Any]:
    return {
        "label": label,
        "points": [
            {"x": x(point), "y": point.at(metric, point.median), **_interval(point, metric), **_about(point)}
            for point in points
        ],
    }


def _interval(point: Point, metric: str) -> dict[str, float]:
    """The quartiles as the metric; a shorter time is a higher rate, so the ends may swap."""
    ends = [end for seconds in (point.q1, point.q3) if (end := point.at(metric, seconds)) is not None]
    return {"low": min(ends), "high": max(ends)} if len(ends) == 2 else {}


def _about(point: Point) -> dict[str, str]:
    flags = f", {', '.join(point.flags)}" if point.flags else ""
    note = f"M = {point.m:,}, {point.version}, {point.outcome}{flags}, {point.measured_at:%Y-%m-%d}"
    return {"note": note, "href": point.href}


def _roofline(dtype: str, limit: Ceiling, metric: str, ms: Sequence[int], shape: str) -> dict[str, Any]:
    """The roofline of M×N×K as the metric, over the M measured and the powers of two between."""
    n, _, k = shape.partition("x")
    between = [2**e for e in range(21) if ms[0] <= 2**e <= ms[-1]]
    drawn = []
    for m in sorted({*ms, *between}):
        flops = roofline.gemm_flops(m, int(n), int(k))
        moved = roofline.gemm_bytes(m, int(n), int(k), dtype, dtype, dtype)
        drawn.append({"x": m, "y": value(metric, limit.roofline_time(flops, moved), flops, moved, limit)})
    return {
        "label": f"roofline {dtype}",
        "role": "ink-3",
        "dash": True,
        "markers": False,
        "points": drawn,
    }


def _chart(
    x: dict[str, Any],
    metric: str,
    series: list[dict[str, Any]],
    points: Sequence[Point],
    place: Callable[[Point], Any],
) -> dict[str, Any]:
    y = _axis(
        metric, [p[key] for s in series for p in s["points"] for key in ("y", "low", "high") if p.get(key)]
    )
    lines = []
    if METRICS[metric].is_share and y["max"] >= 100 and not any(s.get("dash") for s in series):
        what = "roofline" if metric == "roofline" else "dense peak"
        lines.append({"axis": "y", "value": 100, "label": what})
    return {
        "type": "line",
        "x": x,
        "y": y,
        "series": series + _marks(points, place, y["min"]),
        "lines": lines,
    }


def _axis(metric: str, values: Sequence[float]) -> dict[str, Any]:
    """A range that shows the values: shares from 0 to 100, wide spans on a logarithmic axis."""
    shown = dataclasses.asdict(METRICS[metric])
    axis = {"title": shown["title"], "unit": shown["unit"], "type": "linear", "min": 0}
    top, bottom = (max(values), min(values)) if values else (1.0, 1.0)
    if METRICS[metric].is_share:
        return axis | {"max": 105.0 if top < 101 else _round_up(top * 1.05)}
    if top / bottom > LOG_FROM:
        return axis | {"type": "logarithmic", "min": _round_down(bottom / 1.3), "max": _round_up(top * 1.3)}
    return axis | {"max": _round_up(top * 1.08)}


def _round_up(number: float) -> float:
    """To two significant digits, upwards."""
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / step - 1e-9) * step, 12)


def _round_down(number: float) -> float:
    step = 10.0 ** math.floor(math.log10(number))
    return round(math.floor(number / step + 1e-9) * step, 12)


def _marks(points: Sequence[Point], place: Callable[[Point], Any], base: float) -> list[dict[str, Any]]:
    """What is no speed stands on the axis, each kind with a shape of its own."""
    return [
        {
            "label": label,
            "role": role,
            "marker": style,
            "line": False,
            "points": [
                {"x": place(point), "y": base, **_about(point)} for point in points if point.mark == mark
            ],
        }
        for mark, (label, role, style) in MARKS.items()
        if any(point.mark == mark for point in points)
    ]
