"""What a pair of times says: better, worse, same or uncertain. Pure; times in seconds, ratios new / old.

Where both sides kept samples, the verdict rests on an interval of the ratio. Where they are one value each,
as other tools' files are, only a wide stated threshold decides. All margins are factors, so that swapping
the sides swaps better and worse and changes nothing else.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Literal

from workers.bench.timing import median_interval

Verdict = Literal["better", "worse", "same", "uncertain"]

#: What two fresh measurements of one stack may differ by, in share of the time.
MARGIN = 0.02
#: And in seconds, where neither side was measured in several processes or runs: as near as timers agree.
FLOOR_S = 0.3e-6
#: Of two single values, without an interval.
SINGLE_MARGIN = 0.05
#: Below so many samples the median has no 95 % interval by order statistics.
FEWEST_SAMPLES = 8
#: Host time differs between processes of one version: fewer than these say nothing.
FEWEST_PROCESSES = 3
#: Events hold host time where the host needs nearly as long as they say: median / host median below this.
HOST_BOUND = 1.25


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A median with its interval. `repeated`: over several fresh processes or runs, so that the interval
    holds what differs between them."""

    median: float
    low: float
    high: float
    repeated: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """Time after over time before, with its interval; above 1 is slower."""

    value: float
    low: float
    high: float


def estimate(
    samples: Sequence[float], process_medians: Sequence[float] = (), run_medians: Sequence[float] = ()
) -> Estimate | None:
    """The median of `samples` with its interval, widened to what fresh processes and other runs of the
    same stack gave. None where there are too few samples for an interval."""
    interval = median_interval(samples)
    if interval is None:
        return None
    several = [each for each in (process_medians, run_medians) if len(each) > 1]
    ends = [*interval, *(median for each in several for median in each)]
    return Estimate(statistics.median(samples), min(ends), max(ends), repeated=bool(several))


def ratio_of(before: Estimate, after: Estimate) -> Ratio:
    """The ratio of medians, its interval from the outermost ends of theirs."""
    return Ratio(after.median / before.median, after.low / before.high, after.high / before.low)


def timer_floor(before: Estimate, after: Estimate) -> float:
    """The share of the shorter time that FLOOR_S is; 0 where both sides were repeated."""
    if before.repeated and after.repeated:
        return 0.0
    return FLOOR_S / min(before.median, after.median)


def judge(before: Estimate, after: Estimate) -> tuple[Verdict, Ratio]:
    """The verdict on two estimates.

    Same: the whole interval lies within MARGIN, or within the timers' floor where that is wider.
    Better, worse: the whole interval lies beyond MARGIN, and where a side was not repeated beyond
    MARGIN plus the floor (at least another MARGIN), since what differs between processes is not known.
    """
    ratio = ratio_of(before, after)
    floor = timer_floor(before, after)
    same = 1 + max(MARGIN, floor)
    differs = 1 + MARGIN + (max(MARGIN, floor) if floor else 0.0)
    if ratio.low > differs:
        return "worse", ratio
    if ratio.high < 1 / differs:
        return "better", ratio
    if ratio.low >= 1 / same and ratio.high <= same:
        return "same", ratio
    return "uncertain", ratio


def judge_single(before: float, after: float) -> Verdict:
    """The verdict on one value each, by SINGLE_MARGIN; `compare_pairs` says the same in SQL."""
    if after > before * (1 + SINGLE_MARGIN):
        return "worse"
    if before > after * (1 + SINGLE_MARGIN):
        return "better"
    return "same"


def judge_host(before: Sequence[float], after: Sequence[float]) -> Verdict:
    """The verdict on host time, from the medians of fresh processes.

    Uncertain unless both sides have FEWEST_PROCESSES, and all of one side lie apart from all of the other by
    more than MARGIN, or all of both within it.
    """
    if min(len(before), len(after)) < FEWEST_PROCESSES:
        return "uncertain"
    low, high = min(after) / max(before), max(after) / min(before)
    if low > 1 + MARGIN:
        return "worse"
    if high < 1 / (1 + MARGIN):
        return "better"
    if low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN:
        return "same"
    return "uncertain"
