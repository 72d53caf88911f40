"""What a benchmark found: its time beside that of the least that could do, in the same run."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Both times in seconds. No time is good or bad by itself: machines differ, the ratio less so."""

    what: str
    seconds: float
    baseline: str
    baseline_seconds: float
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    what: str
    reason: str


class Failed(Exception):
    """What a benchmark was to show is not so; the text says what."""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_time(work: Callable[[], object], times: int) -> float:
    """Median seconds of `times` calls after one that warms up."""
    work()
    return statistics.median(timed(work) for _ in range(times))


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def table(results: Iterable[Result | Skipped]) -> str:
    """The results in columns."""
    rows = [("benchmark", "time", "baseline of the same run", "time", "ratio", "")]
    skipped = []
    for each in results:
        if isinstance(each, Skipped):
            skipped.append(f"{each.what}: skipped, {each.reason}")
            continue
        ratio = f"{each.seconds / each.baseline_seconds:,.1f}×"
        times = duration(each.seconds), duration(each.baseline_seconds)
        rows.append((each.what, times[0], each.baseline, times[1], ratio, each.note))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if number in (1, 3, 4) else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:], *skipped])
