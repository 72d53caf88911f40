"""The roofline plot: arithmetic intensity against rate, both logarithmic, under the roofs. Pure.

Williams, Waterman and Patterson, CACM 52(4), 2009. Intensity counts compulsory traffic of a cold call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchapp.trends.axes import round_down, round_up
from benchapp.trends.charts import about, batch_label, lines_of
from benchapp.trends.points import Point
from benchapp.trends.utilisation import Ceiling


def roofline_chart(points: Sequence[Point], *, sparse: bool) -> dict[str, Any] | None:
    """Every point that may rank, with each rate's roof, its 2:4 sparse one where asked, and the launch floor.

    None where no point has both an intensity and a rate.
    """
    drawn = [point for point in points if point.intensity and point.at("tflops")]
    if not drawn:
        return None
    intensities = [point.intensity or 0.0 for point in drawn]
    limits = {limit.rate: limit for point in drawn if (limit := point.limit) and limit.peak}
    ridges = [_ridge(limit) for limit in limits.values()]
    low = min([*intensities, *(ridge / 4 for ridge in ridges)]) / 1.6
    high = max([*intensities, *(ridge * 2 for ridge in ridges)]) * 1.6
    series: list[dict[str, Any]] = [
        {
            "label": label,
            "line": False,
            "points": [{"x": p.intensity, "y": p.at("tflops"), **about(p)} for p in of],
        }
        for label, of in lines_of(drawn, batch_label(drawn)).items()
    ]
    for rate, limit in sorted(limits.items()):
        series.append(
            _roof(f"{rate} dense {(limit.peak or 0) / 1e12:,.0f} TFLOP/s", limit, limit.peak, low, high)
        )
        if sparse and limit.sparse:
            label = f"{rate} 2:4 sparse {limit.sparse / 1e12:,.0f} TFLOP/s"
            # from where it leaves the dense roof
            series.append(_roof(label, limit, limit.sparse, max(low, _ridge(limit)), high) | {"dash": True})
    floor = launch_line(drawn)
    if floor:
        series.append(floor)
    values = [p["y"] for s in series for p in s["points"] if p["y"]]
    return {
        "type": "scatter",
        "x": {
            "title": "Arithmetic intensity", "unit": "FLOP/B", "type": "logarithmic",
            "min": round_down(low), "max": round_up(high),
        },
        "y": {
            "title": "Throughput", "unit": "TFLOP/s", "type": "logarithmic",
            "min": round_down(min(values) / 1.3), "max": round_up(max(values) * 1.3),
        },
        "series": series,
        "lines": [],
    }  # fmt: skip


def launch_line(points: Sequence[Point]) -> dict[str, Any] | None:
    """The rate of each case where it took no longer than the launch floor: nothing can be above it.

    None where it limits no case here: everywhere above the roof, or not known.
    """
    highest: dict[float, float] = {}
    for point in points:
        if not (point.floor and point.flops and point.intensity):
            continue
        rate = point.flops / point.floor
        roof = roof_at(point.limit, point.intensity)
        if roof is None or rate < roof:
            highest[point.intensity] = min(highest.get(point.intensity, rate), rate)
    if not highest:
        return None
    return {
        "label": "launch floor",
        "role": "uncertain",
        "dash": True,
        "markers": False,
        "points": [{"x": x, "y": y / 1e12} for x, y in sorted(highest.items())],
    }


def roof_at(limit: Ceiling | None, intensity: float) -> float | None:
    """The highest FLOP/s at an intensity in FLOP/B; None where the device is not known."""
    if limit is None or limit.peak is None:
        return None
    return min(limit.peak, intensity * limit.bandwidth)


def _ridge(limit: Ceiling) -> float:
    return (limit.peak or 0.0) / limit.bandwidth


def _roof(label: str, limit: Ceiling, peak: float | None, low: float, high: float) -> dict[str, Any]:
    """Bandwidth up to the ridge, then the peak."""
    ridge = (peak or 0.0) / limit.bandwidth
    places = [low, ridge, high] if low < ridge < high else [low, high]
    return {
        "label": label,
        "role": "ink-3",
        "roof": True,
        "markers": False,
        "points": [{"x": x, "y": min(peak or 0.0, x * limit.bandwidth) / 1e12} for x in places],
    }
