"""Steps to the JSON that `static/js/charts.js` draws. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from benchapp.moe.points import Point

#: Lines that can be told apart.
MAX_LINES = 6
Value = Callable[[Point], float | None]


def line_name(point: Point) -> str:
    depth = f"{point.case.layers} layers" if point.sliced else ""
    return " · ".join(filter(None, (point.version, point.backend, depth, point.configuration)))


def lines(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points with a speed by version and backend, each by batch; in the order given."""
    found: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        if point.rate:
            found[line_name(point)].append(point)
    return {name: sorted(those, key=lambda p: (p.gpus, p.case.batch)) for name, those in found.items()}


def batch_chart(points: Sequence[Point], title: str, unit: str, value: Value) -> dict[str, Any] | None:
    return _chart(
        lines(points), lambda point: float(point.case.batch), value,
        {
            "title": "Batch", "unit": "sequences", "type": "logarithmic",
            "ticks": sorted({point.case.batch for point in points}),
        },
        {"title": title, "unit": unit},
    )  # fmt: skip


def gpu_chart(points: Sequence[Point]) -> dict[str, Any] | None:
    """tok/s against GPUs of one batch, of the best layout of each number; None where there is one number."""
    if len({point.gpus for point in points if point.rate}) < 2:
        return None
    best = {}
    for name, those in lines(points).items():
        slowest_first = sorted(those, key=lambda point: (point.gpus, point.rate or 0))
        best[name] = list({point.gpus: point for point in slowest_first}.values())
    return _chart(
        best, lambda point: float(point.gpus), lambda point: point.rate,
        {"title": "GPUs", "type": "linear", "min": 0, "ticks": sorted({point.gpus for point in points})},
        {"title": "Throughput", "unit": "tok/s"},
    )  # fmt: skip


def users_chart(points: Sequence[Point]) -> dict[str, Any] | None:
    """tok/s per GPU over tok/s that one user sees."""
    return _chart(
        lines(points), lambda point: point.per_user, lambda point: point.per_gpu,
        {"title": "Interactivity: 1 / TPOT", "unit": "tok/s a user", "type": "linear", "min": 0},
        {"title": "Throughput per GPU", "unit": "tok/s per GPU", "min": 0},
        named=True,
    )  # fmt: skip


def _chart(
    found: dict[str, list[Point]],
    x: Value,
    y: Value,
    across: dict[str, Any],
    up: dict[str, Any],
    *,
    named: bool = False,
) -> dict[str, Any] | None:
    """The newest lines at most MAX_LINES; None without a point. A named point has its batch beside it."""
    series = []
    for name, those in list(found.items())[:MAX_LINES]:
        points = [
            {
                "x": x(point),
                "y": y(point),
                "note": _note(point),
                "href": point.href,
                **({"name": f"{point.case.batch:,}"} if named else {}),
            }
            for point in those
            if x(point) and y(point)
        ]
        if points:
            series.append({"label": name, "points": points})
    if not series:
        return None
    return {"type": "line", "x": _padded(across, series), "y": {"type": "linear", **up}, "series": series}


def _padded(axis: dict[str, Any], series: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if axis["type"] != "logarithmic":
        return axis
    values = [point["x"] for line in series for point in line["points"]]
    return {**axis, "min": min(values) / 1.3, "max": max(values) * 1.3}


def _note(point: Point) -> str:
    return "; ".join(
        filter(None, (f"batch {point.case.batch:,}, {point.layout}", point.window, point.sliced))
    )


def efficiency(points: Sequence[Point]) -> list[tuple[Point, float | None]]:
    """(point, tok/s(n) / (n · tok/s(1))) of one batch; None where one GPU has no speed of that line."""
    alone = {line_name(point): point.rate for point in points if point.gpus == 1 and point.rate}
    return [
        (
            point,
            (point.rate or 0.0) / (point.gpus * one)
            if point.rate and (one := alone.get(line_name(point)))
            else None,
        )
        for point in sorted(points, key=lambda p: (line_name(p), p.gpus))
    ]
