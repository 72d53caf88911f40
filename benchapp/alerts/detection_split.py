"""Where a series may be cut, and whether two neighbouring parts of it differ in rank."""

from __future__ import annotations

import math

import numpy as np

from benchapp.alerts.detection_noise import Array

#: Shorter segments are not looked for: median filters of three have removed them.
SHORTEST = 3
#: Of both sizes: from here on the normal approximation of rank sums is good in the tail.
_LARGE = 20


def without_spikes(values: Array) -> Array:
    """Running medians of three: lone spikes are gone, and steps stand where they stood."""
    if len(values) < SHORTEST:
        return values
    middle = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
    return np.concatenate((middle[:1], middle, middle[-1:]))


def optimal_partition(values: Array, penalty: float, shortest: int = SHORTEST) -> list[int]:
    """First points of all segments but the first, of the cheapest piecewise constant fit in least squares.

    Each segment costs `penalty` (in squared units of `values`) beside its squared residuals (Jackson et al.,
    "An algorithm for optimal partitioning of data on an interval", 2005), and has `shortest` points or more.
    Quadratic in the length, with one vector operation a point.
    """
    n = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values - values.mean())))
    inverse = np.concatenate(([0.0], 1 / np.arange(1, n + 1)))[::-1].copy()
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came_from = np.zeros(n + 1, dtype=np.int64)
    for end in range(shortest, n + 1):
        starts = end - shortest + 1
        move = sums[end] - sums[:starts]
        move *= move
        move *= inverse[n - end : n - end + starts]
        cost = best[:starts] - move
        at = int(cost.argmin())
        came_from[end] = at
        best[end] = cost[at] + penalty
    cuts, end = [], n
    while came_from[end]:
        end = int(came_from[end])
        cuts.append(end)
    return cuts[::-1]


def rank_sum(before: Array, after: Array) -> float:
    """How probable it is that the side which is lower by chance lies as low as this, or lower.

    One-sided p of Mann and Whitney's U towards the smaller side: exact (their recurrence, as a product of
    polynomials) while either side is short, else the normal approximation with a correction for ties.
    """
    few, many = (before, after) if len(before) <= len(after) else (after, before)
    ordered = np.sort(many)
    below = np.searchsorted(ordered, few, "left")
    upto = np.searchsorted(ordered, few, "right")
    u = float(np.sum(below + upto)) / 2
    u = min(u, len(few) * len(many) - u)
    return _exact(len(few), len(many), u) if len(few) <= _LARGE else _normal(before, after, u)


def _exact(few: int, many: int, u: float) -> float:
    counts = np.zeros(int(u) + 1)
    counts[0] = 1
    for size in range(1, few + 1):
        for offset in range(min(size, len(counts))):  # divided by 1 − q^size
            counts[offset::size] = np.cumsum(counts[offset::size])
        drop = many + size
        if drop < len(counts):  # times 1 − q^(many + size)
            counts[drop:] = counts[drop:] - counts[:-drop]
    return min(1.0, float(counts.sum()) / math.comb(few + many, few))


def _normal(before: Array, after: Array, u: float) -> float:
    m, n = len(before), len(after)
    ties = np.unique(np.concatenate((before, after)), return_counts=True)[1].astype(np.float64)
    total = m + n
    variance = m * n / 12 * (total + 1 - float(np.sum(ties**3 - ties)) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return math.erfc((m * n / 2 - u - 0.5) / math.sqrt(2 * variance)) / 2


def misfits(values: Array, before: float, after: float) -> Array:
    """How badly two levels fit `values`, for a cut before each point and after the last: the sum of absolute
    residuals, up to what is common to all cuts. n + 1 of them."""
    return np.concatenate(([0.0], np.cumsum(np.abs(values - before) - np.abs(values - after))))
