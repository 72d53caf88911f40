"""What is counted of a detector's points, and how sure the counts are."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: A point this near counts as the step.
NEAR = 3
_Z = 1.645


def points_per_series(counts: Sequence[int]) -> tuple[float, float]:
    """The mean of counts and its upper 95 % bound: the larger of Poisson's, exact, and of the normal one with
    the counts' own variance, as points of one series come in pairs."""
    n, total = len(counts), sum(counts)
    mean = total / n
    variance = sum((count - mean) ** 2 for count in counts) / n
    return mean, max(poisson_upper(total) / n, mean + _Z * math.sqrt(variance / n))


def poisson_upper(count: int) -> float:
    """The mean under which `count` events or fewer have a chance of 5 %."""
    low, high = float(count), 2.0 * count + 20
    for _ in range(60):
        middle = (low + high) / 2
        term = total = math.exp(-middle)
        for k in range(1, count + 1):
            term *= middle / k
            total += term
        low, high = (middle, high) if total > 0.05 else (low, middle)
    return high


def share(hits: int, n: int) -> tuple[float, float]:
    """The share of hits and its lower 95 % bound (Wilson's, one-sided)."""
    p = hits / n
    middle = p + _Z**2 / (2 * n)
    wide = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n))
    return p, max(0.0, (middle - wide) / (1 + _Z**2 / n))


def hit(found: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether every step has a point near."""
    return all(any(abs(point - step) <= NEAR for point in found) for step in steps)


def strays(found: Sequence[int], steps: Sequence[int]) -> int:
    """Points that are near no step."""
    return sum(all(abs(point - step) > NEAR for step in steps) for point in found)
