"""Sampling and order statistics. Pure Python: no clock of its own, no device.

A sample is one reading of the caller's timer, in seconds per call. Sampling goes on until the
median is known well enough, or until a cap; what was not known well enough is flagged, not hidden.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence

from workers.bench.document import SAMPLE_CAP, Statistics

#: half-width of the median's 95 % interval, over the median, at which sampling stops
TARGET_NOISE = 0.005
MIN_SAMPLES = 20
#: samples between two looks at the noise: a look sorts everything taken so far
LOOK_EVERY = 10
#: Of the window's highest clock, below which its samples are thrown away: idle (0.17 on an H200) and slowdown
#: states lie below it, the clock under an H200's power cap (0.77) above, which is how fast that load runs.
CLOCK_SHARE = 0.75


def summarise(samples: Sequence[float]) -> Statistics:
    """Order statistics of at least one sample; quartiles interpolate linearly between samples."""
    if not samples:
        raise ValueError("no samples to summarise")
    if len(samples) == 1:
        only = samples[0]
        return Statistics(n=1, median=only, q1=only, q3=only, min=only)
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return Statistics(n=len(samples), median=median, q1=q1, q3=q3, min=min(samples))


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """The distribution-free 95 % confidence interval of the median; None of too few samples, fewer than 8.

    It runs between the order statistics of ranks floor(n/2 − 0.98 √n) and ceil(n/2 + 1 + 0.98 √n), counted
    from 1 (Le Boudec, Performance Evaluation of Computer and Communication Systems, 2010, section 2.2.2;
    Hoefler and Belli, SC15, rule 8). It assumes independent samples.
    """
    n = len(samples)
    reach = 0.98 * math.sqrt(n)
    low, high = math.floor(n / 2 - reach), math.ceil(n / 2 + 1 + reach)
    if low < 1 or high > n:
        return None
    ordered = sorted(samples)
    return ordered[low - 1], ordered[high - 1]


def median_noise(samples: Sequence[float]) -> float:
    """Half-width of the median's interval, over the median; infinite where there is none."""
    interval = median_interval(samples)
    median = statistics.median(samples) if interval else 0.0
    if interval is None or median <= 0:
        return math.inf
    low, high = interval
    return (high - low) / 2 / median


def is_short(samples: Sequence[float]) -> bool:
    """Whether the flag `few_samples` belongs to these samples: the median is not known to TARGET_NOISE."""
    return len(samples) < MIN_SAMPLES or median_noise(samples) > TARGET_NOISE


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Samples taken together, in the order taken, and the SM clock at the time where it is known."""

    samples: Sequence[float]
    clock_mhz: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """What sampling brought: at most SAMPLE_CAP samples, and how many were thrown away."""

    samples: list[float]
    discarded: int


def clocked(batches: Sequence[Batch]) -> tuple[list[float], int]:
    """The samples taken while the clock was up, and how many were not.

    Up is at least CLOCK_SHARE of the highest clock among `batches`. A batch without a clock stays.
    """
    highest = max((batch.clock_mhz for batch in batches if batch.clock_mhz is not None), default=0.0)
    kept: list[float] = []
    discarded = 0
    for batch in batches:
        if batch.clock_mhz is not None and batch.clock_mhz < CLOCK_SHARE * highest:
            discarded += len(batch.samples)
        else:
            kept += batch.samples
    return kept, discarded


def thinned(samples: Sequence[float], most: int) -> list[float]:
    """At most `most` of the samples, evenly spread over them, in their order."""
    if len(samples) <= most:
        return list(samples)
    return [samples[index * len(samples) // most] for index in range(most)]


def sample_until_quiet(
    take: Callable[[], Batch],
    *,
    at_most_s: float,
    at_least_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> Window:
    """Call `take` until the median's noise is within TARGET_NOISE.

    Stops early at `at_most_s` seconds of wall clock or where SAMPLE_CAP samples are kept, always after one
    batch; goes on for `at_least_s` seconds where the cap on time allows it. Samples beyond SAMPLE_CAP are
    thinned out evenly.
    """
    batches: list[Batch] = []
    began, look_at = clock(), LOOK_EVERY
    while True:
        batches.append(take())
        spent = clock() - began
        if spent >= at_most_s:
            break
        if spent < at_least_s or sum(len(batch.samples) for batch in batches) < look_at:
            continue
        kept, discarded = clocked(batches)
        if len(kept) >= SAMPLE_CAP or not is_short(kept):
            break
        look_at = len(kept) + discarded + LOOK_EVERY
    kept, discarded = clocked(batches)
    return Window(thinned(kept, SAMPLE_CAP), discarded)
