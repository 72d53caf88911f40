"""Points of a changed series as a small SVG of the inbox, and as JSON for `static/js/charts.js`. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from benchapp.alerts.models import Change
from benchapp.alerts.points import Point
from benchapp.alerts.words import level, metric_name
from benchapp.trends.axes import round_down, round_up

#: Size of a sparkline, in units of its view box, and points drawn on either side of the change.
WIDTH, HEIGHT, PAD = 132, 34, 3
SIDE = 30
#: No point draws a sparkline out further than this factor beyond its levels.
BEYOND = 1.6
#: Points of a chart on either side of the change.
DRAWN = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Sparkline:
    """In units of the view box: the points, the change's x, and (x1, x2, y) of each level."""

    points: str
    at: float
    before: tuple[float, float, float]
    after: tuple[float, float, float]


def split_of(points: Sequence[Point], change: Change) -> int | None:
    """Index of the first point of the new level; None where it is not among them."""
    return next((index for index, point in enumerate(points) if point.at == change.at), None)


def sparkline(points: Sequence[Point], change: Change) -> Sparkline | None:
    """None where either side has no point, or a level is no positive number."""
    split = split_of(points, change)
    levels = change.before, change.after
    if not split or not all(math.isfinite(value) and value > 0 for value in levels):
        return None
    start = max(0, split - SIDE)
    values = [point.median for point in points[start : split + SIDE]]
    split -= start
    least, most = min(levels) / BEYOND, max(levels) * BEYOND
    logs = [math.log(min(max(value, least), most)) for value in values]
    old, new = (math.log(value) for value in levels)
    bottom, top = min([*logs, old, new]), max([*logs, old, new])

    def x(index: float) -> float:
        return round(PAD + (WIDTH - 2 * PAD) * index / max(1, len(values) - 1), 1)

    def y(log: float) -> float:
        share = (log - bottom) / (top - bottom) if top > bottom else 0.5
        return round(HEIGHT - PAD - (HEIGHT - 2 * PAD) * share, 1)

    middle = x(split - 0.5)
    return Sparkline(
        points=" ".join(f"{x(index)},{y(log)}" for index, log in enumerate(logs)),
        at=middle,
        before=(x(max(0, split - change.n_before)), middle, y(old)),
        after=(middle, x(min(len(values), split + change.n_after) - 1), y(new)),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table beside a chart."""

    point: Point
    version: str
    href: str
    source: str
    new: bool

    @property
    def label(self) -> str:
        return f"{self.version} · {self.point.at:%d %b}"


def _unit(metric: str, most: float) -> tuple[str, float]:
    """What an axis up to `most` stored units is in, and how many of it one of them is."""
    if metric == "size":
        return ("MiB", 2.0**-20) if most >= 2**20 else ("KiB", 2.0**-10)
    return ("s", 1.0) if most >= 1 else ("ms", 1e3) if most >= 2e-3 else ("µs", 1e6)


def chart(rows: Sequence[Row], change: Change) -> dict[str, Any] | None:
    """Every row in its order, both levels, and where it changed; None without two rows."""
    if len(rows) < 2:
        return None
    metric = change.series.metric
    labels = [row.label for row in rows]
    ends = (change.before, change.after, *(row.point.median for row in rows))
    drawable = [value for value in ends if math.isfinite(value) and value > 0]
    if not drawable:
        return None
    unit, factor = _unit(metric, max(drawable))
    drawable = [value * factor for value in drawable]
    y: dict[str, Any] = {"title": metric_name(metric), "unit": unit, "type": "linear"}
    y |= {"min": round_down(min(drawable) * 0.97), "max": round_up(max(drawable) * 1.03)}
    if max(drawable) > 12 * min(drawable):
        y |= {"type": "logarithmic", "min": round_down(min(drawable) / 1.3)}
    split = next((index for index, row in enumerate(rows) if row.new), len(rows))
    measured = [
        {
            "x": row.label,
            "y": row.point.median * factor,
            "href": row.href,
            "note": f"{row.source}, {row.version}",
            "flagged": row.point.doubtful,
        }
        for row in rows
    ]
    old = range(max(0, split - change.n_before), split)
    new = range(split, min(len(rows), split + change.n_after))
    tone = "regressed" if change.worse else "improved"
    told_old, told_new = (level(value, metric) for value in (change.before, change.after))
    inside = 0 < split < len(rows)
    return {
        "type": "line",
        "x": {"title": "In the order in which detection reads them", "type": "category", "labels": labels},
        "y": y,
        "series": [
            {"label": "measured", "role": "line-1", "points": measured, "line": False},
            _level(f"level before: {told_old}", "ink-2", labels, change.before * factor, old),
            _level(f"level after: {told_new}", tone, labels, change.after * factor, new),
        ],
        "lines": [{"axis": "x", "value": split - 0.5, "label": "change", "role": "ink-2"}] if inside else [],
    }


def _level(name: str, role: str, labels: Sequence[str], value: float, where: range) -> dict[str, Any]:
    """A level over the points that it rests on; one point draws it as a mark."""
    drawn = value if math.isfinite(value) else None
    points = [{"x": label, "y": drawn if index in where else None} for index, label in enumerate(labels)]
    alone: dict[str, Any] = {"marker": "line"} if len(where) < 2 else {"markers": False}
    return {"label": name, "role": role, "points": points, "dash": True, **alone}
