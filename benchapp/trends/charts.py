"""Points to the JSON that `static/js/charts.js` draws. Pure."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from benchapp.catalog.versions import version_order
from benchapp.trends.axes import value_axis
from benchapp.trends.points import Point, size_name, size_title, sweep_of
from benchapp.trends.utilisation import METRICS, value
from workers.bench.cases.parse import work_of

#: More lines than this cannot be told apart.
MAX_LINES = 6
#: Sizes that an axis names.
MAX_TICKS = 25
#: Marks in place of a value: what the legend says, colour role, point style.
MARKS = {
    "failed": ("▲ failed", "failed", "triangle"),
    "incorrect": ("≠ wrong result", "incorrect", "crossRot"),
    "unsupported": ("– not supported", "unsupported", "line"),
    "invalid": ("~ invalid or impossible", "uncertain", "rectRot"),
}


def batch_chart(points: Sequence[Point], metric: str) -> dict[str, Any]:
    """The size on a logarithmic x, one line a dtype, version and backend, with the roofline of the shape."""
    sizes = sorted({point.size for point in points if point.size})
    series = [
        _line(label, of, metric, lambda point: point.size)
        for label, of in ranked_lines(points, batch_label(points)).items()
    ]
    for dtype in dict.fromkeys(point.dtype for point in points):
        first = next((point for point in points if point.dtype == dtype and point.limit), None)
        if first is not None and sizes:
            series += _roofline(first, metric, sizes)
    x: dict[str, Any] = {
        "title": size_title(points[0].kind) if points else "", "type": "logarithmic", "ticks": ticks(sizes),
    }  # fmt: skip
    if sizes:
        x |= {"min": sizes[0] / 1.2, "max": sizes[-1] * 1.2}
    return _chart(x, metric, series, points, lambda point: point.size)


def ticks(sizes: Sequence[int]) -> list[int]:
    """The sizes that an axis can name without overlap; powers of two before their neighbours."""
    if not sizes:
        return []
    apart = math.log(sizes[-1] / sizes[0]) / MAX_TICKS
    kept: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)):
        if all(abs(math.log(size / other)) > apart for other in kept):
            kept.append(size)
    return sorted(kept)


def version_chart(points: Sequence[Point], metric: str, component: str) -> dict[str, Any]:
    """Versions in release order on x, one line a dtype, size and backend; of each version the newest."""
    labels = sorted({point.version for point in points}, key=version_order)
    series = [
        _line(label, _newest_by_version(of), metric, lambda point: point.version)
        for label, of in ranked_lines(points, case_label(points)).items()
    ]
    x = {"title": component, "type": "category", "labels": labels}
    return _chart(x, metric, series, points, lambda point: point.version)


def time_chart(points: Sequence[Point], metric: str) -> dict[str, Any]:
    """When it was measured on x, one line a dtype, size and backend."""
    series = [
        _line(label, sorted(of, key=lambda p: p.measured_at), metric, _when)
        for label, of in ranked_lines(points, case_label(points)).items()
    ]
    # a run's cases lie seconds apart: minutes on either side keep them from filling the whole axis
    x: dict[str, Any] = {"title": "Measured (your time zone)", "type": "time"}
    if points:
        times = sorted(point.measured_at for point in points)
        pad = max((times[-1] - times[0]) / 20, dt.timedelta(minutes=10))
        x |= {"min": (times[0] - pad).isoformat(), "max": (times[-1] + pad).isoformat()}
    return _chart(x, metric, series, points, _when)


def spread(sizes: Sequence[int], most: int = MAX_LINES) -> list[int]:
    """At most so many of them, evenly by rank with the ends; powers of two where there are enough."""
    if len(sizes) <= most:
        return list(sizes)
    powers = [size for size in sizes if size & (size - 1) == 0]
    if len(powers) >= most:
        sizes = powers
    if most < 2:
        return [sizes[len(sizes) // 2]]
    return [sizes[round(index * (len(sizes) - 1) / (most - 1))] for index in range(most)]


def batch_label(points: Sequence[Point]) -> Callable[[Point], str]:
    """What names a line over sizes: version, and what else differs."""
    dtypes, called = _differing(points)
    return lambda p: ", ".join(
        filter(None, (p.dtype if dtypes else "", p.version, called.get(p.backend, ""), p.configuration))
    )


def case_label(points: Sequence[Point]) -> Callable[[Point], str]:
    """What names a line over versions or time: size, and what else differs."""
    dtypes, called = _differing(points)
    return lambda p: ", ".join(
        filter(
            None,
            (
                p.name if p.size is None else f"{size_name(p.kind)} = {p.size:,}",
                p.dtype if dtypes else "",
                called.get(p.backend, ""),
                p.configuration,
            ),
        )
    )


def _differing(points: Sequence[Point]) -> tuple[bool, dict[str, str]]:
    """Whether a line is to name its format, and what it calls each backend: without the parts that all begin
    with, and with the library that a name hides, torch.mm (cuBLAS). Empty where there is one backend."""
    libraries = {point.backend: point.library for point in points}
    if len(libraries) < 2:
        return True, {}
    names = [backend.split(".")[:-1] for backend in libraries]
    shared = 0
    while all(len(name) > shared and name[shared] == names[0][shared] for name in names):
        shared += 1
    called = {}
    for backend, library in libraries.items():
        said = ".".join(backend.split(".")[shared:])
        called[backend] = f"{said} ({library})" if library and library.lower() not in said.lower() else said
    return len({point.dtype for point in points}) > 1, called


def ranked_lines(points: Sequence[Point], label: Callable[[Point], str]) -> dict[str, list[Point]]:
    """Those with any speed: the others are marks on the axis, and would only fill the legend."""
    lines = lines_of(points, label)
    return {name: of for name, of in lines.items() if not all(point.mark for point in of)}


def lines_of(points: Sequence[Point], label: Callable[[Point], str]) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        lines[label(point)].append(point)
    return lines


def about(point: Point) -> dict[str, Any]:
    """What the tooltip says of a point, how it is drawn, and where a click leads."""
    flags = f", {', '.join(point.flag_words)}" if point.flags or point.above_roofline else ""
    note = f"{point.where}, {point.version}, {point.outcome}{flags}, {point.measured_at:%Y-%m-%d}"
    drawn: dict[str, Any] = {"note": note, "href": point.href}
    if point.borrowed:
        drawn["hollow"] = True
    if point.caution:
        drawn["flagged"] = True
    return drawn


def _when(point: Point) -> str:
    return point.measured_at.isoformat()


def _newest_by_version(points: Sequence[Point]) -> list[Point]:
    """Another driver or toolkit under the same version is no second point of it."""
    newest = {point.version: point for point in sorted(points, key=lambda point: point.measured_at)}
    return sorted(newest.values(), key=lambda point: version_order(point.version))


def _line(label: str, points: Sequence[Point], metric: str, x: Callable[[Point], Any]) -> dict[str, Any]:
    drawn = []
    for point in points:
        ends = point.interval(metric)
        drawn.append(
            {
                "x": x(point),
                "y": point.at(metric),
                **({"low": ends[0], "high": ends[1]} if ends else {}),
                **about(point),
            }
        )
    return {"label": label, "points": drawn, "band": True}


def _roofline(first: Point, metric: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """The roofline of a shape as the metric, over the sizes measured and the powers of two between.

    None where the metric is the host's, or where it says how far off the roofline a time is.
    """
    if metric in ("host", "recoverable") or first.limit is None:
        return []
    sweep = sweep_of(first.kind)
    between = [2**e for e in range(31) if sizes[0] <= 2**e <= sizes[-1]]
    drawn = []
    for size in sorted({*sizes, *between}):
        work = work_of(first.kind, {**first.params, sweep: size})
        if work is None:
            return []
        flops = work.flops if work.rate else None
        best = first.limit.roofline_time(flops, work.bytes)
        y = value(metric, best, flops, work.bytes, first.limit, clock_mhz=first.limit.clock_mhz)
        drawn.append({"x": size, "y": y})
    return [
        {
            "label": " ".join(filter(None, ("roofline", first.dtype))),
            "role": "ink-3",
            "dash": True,
            "markers": False,
            "points": drawn,
        }
    ]


def _chart(
    x: dict[str, Any],
    metric: str,
    series: list[dict[str, Any]],
    points: Sequence[Point],
    place: Callable[[Point], Any],
) -> dict[str, Any]:
    shown = METRICS[metric]
    values = [p[key] for s in series for p in s["points"] for key in ("y", "low", "high") if p.get(key)]
    y = value_axis(shown.title, shown.unit, values, is_share=shown.is_share)
    lines = []
    if shown.is_share and y["max"] >= 100 and not any(s.get("dash") for s in series):
        lines.append({"axis": "y", "value": 100, "label": shown.whole})
    return {
        "type": "line",
        "x": x,
        "y": y,
        "series": series + _marks(points, place, y["min"]),
        "lines": lines,
    }


def _marks(points: Sequence[Point], place: Callable[[Point], Any], base: float) -> list[dict[str, Any]]:
    """What is no speed stands on the axis, each kind with a shape of its own."""
    return [
        {
            "label": label,
            "role": role,
            "marker": style,
            "line": False,
            "points": [
                {"x": place(point), "y": base, **about(point)} for point in points if point.mark == mark
            ],
        }
        for mark, (label, role, style) in MARKS.items()
        if any(point.mark == mark for point in points)
    ]
