"""Collectives to the JSON that `static/js/charts.js` draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchapp.moe.collective_points import Exchange, ordered

#: Lines that can be told apart.
MAX_LINES = 6


def time_chart(exchanges: Sequence[Exchange]) -> dict[str, Any] | None:
    """Time in µs against the message in KiB, both logarithmic, a line a backend and version; what is no speed
    is marked on the axis. None without a point."""
    shown = drawn(exchanges)
    series: list[dict[str, Any]] = [
        {
            "label": label,
            "band": True,
            "points": [_point(each) for each in ordered(exchanges) if each.label == label and each.median],
        }
        for label in shown
    ]
    if not series:
        return None
    values = [point[end] for line in series for point in line["points"] for end in ("y", "low", "high")]
    base = min(values) / 1.6
    marked = [each for each in exchanges if each.mark]
    if marked:
        points = [{"x": _kib(each), "y": base, **_about(each)} for each in marked]
        series.append(
            {"label": "▲ no speed", "role": "failed", "marker": "triangle", "line": False, "points": points}
        )
    sizes = sorted({_kib(each) for each in exchanges})
    return {
        "type": "line",
        "x": {
            "title": "Message of one GPU", "unit": "KiB", "type": "logarithmic", "ticks": sizes,
            "min": sizes[0] / 1.3, "max": sizes[-1] * 1.3,
        },
        "y": {
            "title": "Time of one call", "unit": "µs", "type": "logarithmic", "min": base,
            "max": max(values) * 1.6,
        },
        "series": series,
    }  # fmt: skip


def drawn(exchanges: Sequence[Exchange]) -> list[str]:
    """The lines with a speed that were measured last, at most MAX_LINES, by name."""
    last: dict[str, Any] = {}
    for each in exchanges:
        if each.median:
            last[each.label] = max(each.measured_at, last.get(each.label, each.measured_at))
    return sorted(sorted(last, key=lambda label: last[label])[-MAX_LINES:])


def _kib(each: Exchange) -> float:
    return each.case.message_bytes / 1024


def _point(each: Exchange) -> dict[str, Any]:
    assert each.time is not None
    median, low, high = (seconds * 1e6 for seconds in each.time)
    return {"x": _kib(each), "y": median, "low": low, "high": high, **_about(each)}


def _about(each: Exchange) -> dict[str, Any]:
    flags = f", {', '.join(each.flag_words)}" if each.flags else ""
    note = f"{each.case.tokens:,} tokens, {each.outcome}{flags}, {each.measured_at:%Y-%m-%d}"
    return {"note": note, "href": each.href, **({"flagged": True} if each.cautions else {})}
