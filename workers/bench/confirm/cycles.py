"""Times and cycles of two sides, and what both together say. Pure.

Where the SM clock moved between processes, what a kernel computes in scales with it and what it waits for
memory in does not. So both are judged, times and times × clock, and they must not contradict each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from workers.bench.confirm.judge import LOOKS, Verdict, judge

#: Between the slowest and the fastest process, relative: more is a clock that moved.
MOVED = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, and the space it is of. The ratios of both spaces are there where the clock moved."""

    verdict: Verdict
    in_cycles: bool = False
    time_ratio: float | None = None
    cycles_ratio: float | None = None


def moved(clocks: Sequence[float | None]) -> bool:
    """Whether all clocks (MHz) are known, and more than MOVED apart."""
    known = [clock for clock in clocks if clock]
    return len(known) == len(clocks) > 0 and max(known) / min(known) > 1 + MOVED


def decide(
    old: Sequence[float | None],
    new: Sequence[float | None],
    old_clocks: Sequence[float | None],
    new_clocks: Sequence[float | None],
    *,
    margin: float,
    resolution: float,
    looks: Sequence[int] = LOOKS,
) -> Decision:
    """Of seconds and clocks (MHz) of the processes of two sides, in the order of their pairs."""
    by_time = judge(old, new, margin, resolution=resolution, looks=looks)
    there = [(a, b) for side in (zip(old, old_clocks, strict=True), zip(new, new_clocks, strict=True))
             for a, b in side if a is not None]  # fmt: skip
    if not moved([clock for _, clock in there]):
        return Decision(by_time)
    # seconds × MHz are millions of cycles
    clocks = [clock for _, clock in there if clock]
    by_cycles = judge(
        _cycles(old, old_clocks), _cycles(new, new_clocks), margin,
        resolution=resolution * max(clocks), looks=looks,
    )  # fmt: skip
    chosen, in_cycles = _together(by_time, by_cycles)
    return Decision(chosen, in_cycles, by_time.ratio, by_cycles.ratio)


def _cycles(times: Sequence[float | None], clocks: Sequence[float | None]) -> list[float | None]:
    return [time * clock if time and clock else None for time, clock in zip(times, clocks, strict=True)]


def _together(by_time: Verdict, by_cycles: Verdict) -> tuple[Verdict, bool]:
    """One verdict of two, and whether it is of cycles.

    One that is decided holds where the other agrees: says the same, or is open and on the same side of 1.
    """
    if by_cycles.word != "AMBG" and _agrees(by_cycles, by_time):
        return by_cycles, True
    if by_time.word != "AMBG" and _agrees(by_time, by_cycles):
        return by_time, False
    if by_time.word == by_cycles.word == "AMBG":
        return by_cycles, True
    why = f"the clock moved; times say {_said(by_time)}, cycles {_said(by_cycles)}"
    return dataclasses.replace(by_cycles, word="AMBG", why=why), True


def _agrees(decided: Verdict, other: Verdict) -> bool:
    if other.word != "AMBG" or other.ratio is None:
        return other.word == decided.word
    return decided.word == "SAME" or (other.ratio > 1) == (decided.word == "SLOW")


def _said(verdict: Verdict) -> str:
    return f"{verdict.word} ({verdict.ratio:.3f})" if verdict.ratio is not None else verdict.word
