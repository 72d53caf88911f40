"""What a comparison says, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchapp.runs.ranking import DOUBTFUL
from benchapp.trends import compare_stats as stats
from benchapp.trends.compare_queries import VERDICTS, Group, Half, Row, Spread
from benchapp.trends.compare_sides import Side
from benchapp.web.templatetags.units import NBSP, si_time

GLYPHS = {
    "better": "↓",
    "worse": "↑",
    "same": "=",
    "uncertain": "~",
    "missing": "–",
    "incorrect": "≠",
}
MEANINGS = {
    "better": "less GPU time, beyond the margin",
    "worse": "more GPU time, beyond the margin",
    "same": "within the margin",
    "uncertain": "no verdict: the row says why",
    "missing": "a time on one side only: coverage, not speed",
    "incorrect": "a wrong or impossible result on a side: never a speed",
}


def summary(group: Group) -> str:
    """ "18 better, 3 worse, 40 same, 5 uncertain, 2 missing, 1 incorrect." """
    return ", ".join(f"{group.counts[verdict]:,} {verdict}" for verdict in VERDICTS) + "."


def about_speed(spread: Spread | None) -> str:
    """The geometric mean, never without its spread."""
    if spread is None:
        return "No pair can be compared in speed."
    if spread.pairs == 1:
        return f"The one pair that can be compared has a ratio of {spread.median:.3f}."
    return (
        f"Over the {spread.pairs:,} that can be compared the geometric mean of the ratio is "
        f"{spread.geometric_mean:.3f} (median {spread.median:.3f}, "
        f"middle half {spread.q1:.2f}–{spread.q3:.2f}, best {spread.best:.2f}, worst {spread.worst:.2f})."
    )


def coverage(group: Group, before: str, after: str) -> str:
    """ "fp8_block: 13,566 cases in 0.19.0, 518 in 0.24.0: 13,048 lost"; what is new is said beside it."""
    said = [f"{group.lost:,} lost"] if group.lost else []
    said += [f"{group.new:,} new"] if group.new else []
    return f"{group.label}: {group.had:,} cases in {before}, {group.has:,} in {after}: {', '.join(said)}"


def about_host(counts: Mapping[str, int]) -> str:
    """Host time, apart from GPU time."""
    total = sum(counts.values())
    if not total:
        return ""
    said = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if counts.get(verdict))
    return f"Host time, apart from these and in none of them: {said}."


def apart(before: Side, after: Side) -> str:
    """What the two sides share and where they differ, in a phrase: "vllm 0.19.0 → 0.24.0 on X"."""
    if before.place == after.place:
        old, new = before.name, after.name
        component, _, version = new.partition(" ")
        if version and old.startswith(component + " "):
            new = version
        return f"{old} → {new} on {before.place}"
    if before.name == after.name:
        return f"{before.name} on {before.place} → {after.place}"
    return f"{before} → {after}"


def verdict(row: Row) -> str:
    """Why a pair is in its class."""
    old, new = row.before, row.after
    match row.reason:
        case "incorrect":
            return _incorrect(old, new)
        case "lost":
            return "not measured after"
        case "new":
            return "not measured before"
        case "lost_outcome":
            return f"now {_outcome(new)}"
        case "new_outcome":
            return f"was {_outcome(old)}"
        case "invalid":
            reason = next((half.invalid_reason for half in (old, new) if half and half.invalid_reason), "")
            return f"its run was marked invalid: {reason}"
        case "borrowed":
            return f"{_which(old, new, 'borrowed')} borrowed from another version: not measured"
        case "flags":
            return _flags(old, new)
        case "timer":
            return f"timers differ: {_differ(old, new, 'timer')}"
        case "l2_policy":
            return f"L2 policies differ: {_differ(old, new, 'l2_policy')}"
        case "configuration":
            return "settings of the GPU differ"
        case "host_bound":
            return "timed by events while the host needed as long: it may be host time"
        case "few":
            return f"fewer than {stats.FEWEST_SAMPLES} samples: no interval"
        case "single":
            return f"one value each, no interval: threshold {_share(stats.SINGLE_MARGIN)}"
    return _interval(row)


def _interval(row: Row) -> str:
    once = ", one process a side" if row.reason == "once" else ""
    if row.verdict == "uncertain":
        return f"the interval holds both same and different{once}"
    if row.verdict == "same":
        floor = f" or {_floor()}" if once else ""
        return f"the interval lies within {_share(stats.MARGIN)}{floor}{once}"
    beyond = f"{_share(stats.MARGIN)} plus {_share(stats.MARGIN)} or {_floor()}"
    return f"the interval lies beyond {beyond if once else _share(stats.MARGIN)}{once}"


def _share(margin: float) -> str:
    return f"{margin * 100:g}{NBSP}%"


def _floor() -> str:
    return f"{stats.FLOOR_S * 1e6:g}{NBSP}µs"


def _incorrect(old: Half | None, new: Half | None) -> str:
    was, now = _wrong(old), _wrong(new)
    if was == now:
        return f"{was} on both sides"
    if was and now:
        return f"{was} before and {now} after"
    if now:
        return f"became {now}" if old else f"{now}; not measured before"
    return f"was {was} and is {_outcome(new)} now" if new else f"was {was}; not measured after"


def _wrong(half: Half | None) -> str:
    if half is None:
        return ""
    said = ["incorrect"] if half.outcome == "incorrect" else []
    said += ["impossible"] if "impossible" in half.flags else []
    return " and ".join(said)


def _outcome(half: Half | None) -> str:
    """An outcome with the library's own words."""
    if half is None:
        return "not measured"
    if half.outcome == "ok":
        return "right"
    said = half.outcome.replace("_", " ")
    return f"{said}: {half.error}" if half.error else said


def _which(old: Half | None, new: Half | None, flag: str) -> str:
    sides = [name for name, half in (("before", old), ("after", new)) if half and flag in half.flags]
    return " and ".join(sides)


def _flags(old: Half | None, new: Half | None) -> str:
    said = [f"{flag.replace('_', ' ')} ({where})" for flag in DOUBTFUL if (where := _which(old, new, flag))]
    return ", ".join(said)


def _differ(old: Half | None, new: Half | None, name: str) -> str:
    return " and ".join(getattr(half, name) or "unknown" for half in (old, new) if half)


def host(row: Row) -> str:
    """What is said of a pair's host time."""
    if row.host_ratio is None:
        return ""
    assert row.before and row.after
    times = f"{si_time(row.before.host)} → {si_time(row.after.host)}"
    why = (
        f"; it differs between processes, {stats.FEWEST_PROCESSES} or more a side must lie apart"
        if row.host_verdict == "uncertain"
        else ""
    )
    return f"host time {row.host_verdict}: {times}{why}"


def libraries(rows: Sequence[Row]) -> list[str]:
    """NVIDIA's own libraries among the backends shown: a version of FlashInfer changes little there."""
    return sorted({half.library for row in rows for half in (row.before, row.after) if half and half.library})
