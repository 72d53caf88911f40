"""Loads to the JSON that `static/js/charts.js` draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchapp.moe.serving_points import Load, by_stack

#: Lines that can be told apart.
MAX_STACKS = 6
#: A logarithmic axis where values span more than this factor.
LOG_FROM = 12


def throughput(loads: Sequence[Load], *, per_gpu: bool) -> dict[str, Any] | None:
    """Output tok/s over 1 / TPOT p50, a line a stack along its concurrencies; None without a point."""
    series = []
    for name, line in drawn(loads).items():
        rates = [(load, load.output_per_gpu if per_gpu else load.output_rate) for load in line]
        points = [
            {"x": load.interactivity, "y": rate, "name": f"{load.concurrency:,}", **_about(load)}
            for load, rate in rates
            if load.interactivity and rate
        ]
        if points:
            series.append({"label": name, "points": points})
    if not series:
        return None
    return {
        "type": "line",
        "x": {"title": "Interactivity: 1 / TPOT p50", "unit": "tok/s a user", "type": "linear", "min": 0},
        "y": {"title": "Output", "unit": "tok/s per GPU" if per_gpu else "tok/s", "type": "linear", "min": 0},
        "series": series,
    }


def first_token(loads: Sequence[Load]) -> dict[str, Any] | None:
    """TTFT p50 and p99 in ms against concurrency; what failed is marked on the axis. None without a point."""
    series: list[dict[str, Any]] = []
    for name, line in drawn(loads).items():
        told = [(load, load.ranked.ttft) for load in line if load.ranked and load.ranked.ttft]
        for which in ("p50", "p99") if told else ():
            points = [
                {"x": load.concurrency, "y": getattr(ttft, which) * 1e3, **_about(load)}
                for load, ttft in told
            ]
            series.append({"label": f"{name}, {which}", "points": points})
    values = [point["y"] for line in series for point in line["points"] if point["y"] > 0]
    if not values:
        return None
    is_log = max(values) > LOG_FROM * min(values)
    base = min(values) / 1.6 if is_log else 0
    failed = [{"x": load.concurrency, "y": base, **_about(load)} for load in loads if load.ranked is None]
    if failed:
        series.append(
            {"label": "▲ no speed", "role": "failed", "marker": "triangle", "line": False, "points": failed}
        )
    every = sorted({load.concurrency for load in loads})
    return {
        "type": "line",
        "x": {
            "title": "Concurrency: requests at a time", "type": "logarithmic", "ticks": every,
            "min": every[0] / 1.2, "max": every[-1] * 1.2,
        },
        "y": {"title": "TTFT", "unit": "ms", "type": "logarithmic" if is_log else "linear", "min": base},
        "series": series,
    }  # fmt: skip


def drawn(loads: Sequence[Load]) -> dict[str, list[Load]]:
    """The stacks with a speed that were measured last, at most MAX_STACKS, in their order."""
    lines = {name: line for name, line in by_stack(loads).items() if any(load.ranked for load in line)}
    last = sorted(lines, key=lambda name: max(load.measured_at for load in lines[name]))[-MAX_STACKS:]
    return {name: line for name, line in lines.items() if name in last}


def _about(load: Load) -> dict[str, Any]:
    flags = f", {', '.join(load.cautions)}" if load.cautions else ""
    said = load.output_words or load.outcome
    note = f"concurrency {load.concurrency:,}: {said}{flags}, {load.measured_at:%Y-%m-%d}"
    return {"note": note, "href": load.href, **({"flagged": True} if load.cautions else {})}
