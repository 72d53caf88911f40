"""What pairs of process values say of a change: SAME, FAST, SLOW, or AMBG while nothing can be said. Pure.

A value is what one fresh process measured (the median of its samples); pair i is the i-th process of either
side, taken one right after the other. Samples of a process agree better than processes do, so processes are
what is counted.

The interval is Student's t of the logarithms of the pairs' ratios, trimmed by one in eight at either end with
the winsorised variance (Tukey and McLaughlin, Sankhya A 25, 1963; Yuen, Biometrika 61, 1974), so that one bad
process decides nothing. Five looks share an error of 5 %, 1 % each (Bonferroni): the interval is of 99 %.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from workers.bench.document import Word

#: Pairs after which it is decided or gone on.
LOOKS = (5, 8, 12, 18, 27)
#: Of what has one mode across processes and takes minutes: CPU seconds and bytes of a build.
BUILD_LOOKS = (3, 5, 8, 12, 18)
#: That any of the looks' intervals misses the ratio.
ERROR = 0.05
#: Least standard deviation of a pair's log ratio: nothing is known better than this.
FLOOR = 0.001
#: Of so many pairs one is trimmed at either end.
TRIMMED_OF = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """`ratio` is new / old, None without a pair; `low` and `high` its 99 % interval, None of fewer than two
    pairs. `why` says in a few words why it is AMBG."""

    word: Word
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int = 0
    why: str = ""


def judge(
    old: Sequence[float | None],
    new: Sequence[float | None],
    margin: float = 0.01,
    *,
    resolution: float = 0.0,
    looks: Sequence[int] = LOOKS,
) -> Verdict:
    """The verdict on interleaved values of two sides, lower being better.

    SLOW: the interval lies wholly above 1 + margin; FAST: wholly below 1 / (1 + margin); SAME: between the
    two; else AMBG, as it is before the first of `looks`. A pair of which a side is missing (None, or no
    finite number above 0) is left out. `resolution` is the step of the clock, in the unit of the values;
    where it is more than `margin` of the smallest of them it is the margin.
    """
    pairs = [(a, b) for a, b in zip(map(_value, old), map(_value, new), strict=False) if a and b]
    if not pairs:
        return Verdict("AMBG", None, None, None, 0, "no pair of processes has a value on both sides")
    logs = sorted(math.log(b) - math.log(a) for a, b in pairs)
    middle, error, freedom = _trimmed(logs)
    ratio = _bounded(middle)
    if freedom < 1:
        return Verdict("AMBG", ratio, None, None, len(logs), "one pair alone has no interval")
    reach = quantile(1 - ERROR / len(looks) / 2, freedom) * error
    low, high = _bounded(middle - reach), _bounded(middle + reach)
    if len(logs) < looks[0]:
        few = f"{len(logs)} pairs of processes, and {looks[0]} are the least that decide"
        return Verdict("AMBG", ratio, low, high, len(logs), few)
    edge = 1 + max(margin, resolution / min(min(pair) for pair in pairs))
    word = _word(low, high, edge)
    why = f"after {len(logs)} pairs the interval is neither within nor beyond the margin"
    return Verdict(word, ratio, low, high, len(logs), why if word == "AMBG" else "")


def _value(told: float | None) -> float | None:
    return told if told is not None and math.isfinite(told) and told > 0 else None


def _bounded(log: float) -> float:
    """exp, within what a float and a document hold: an interval of two wild pairs may end anywhere."""
    return math.exp(min(max(log, -27.0), 27.0))


def _word(low: float, high: float, edge: float) -> Word:
    if low > edge:
        return "SLOW"
    if high < 1 / edge:
        return "FAST"
    return "SAME" if low >= 1 / edge and high <= edge else "AMBG"


def _trimmed(ordered: Sequence[float]) -> tuple[float, float, int]:
    """Trimmed mean of ordered values, its standard error, and the degrees of freedom of that."""
    n = len(ordered)
    cut = n // TRIMMED_OF
    kept = ordered[cut : n - cut]
    middle = math.fsum(kept) / len(kept)
    if n < 2:
        return middle, 0.0, 0
    pulled = [kept[0]] * cut + list(kept) + [kept[-1]] * cut
    mean = math.fsum(pulled) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in pulled) / (n - 1))
    return middle, max(deviation, FLOOR) * math.sqrt(n) / len(kept), len(kept) - 1


@functools.lru_cache(maxsize=1000)
def quantile(probability: float, freedom: int) -> float:
    """The t quantile of a probability from 0.5 to below 1, for a whole number of degrees of freedom.

    By bisection over the finite series of the t distribution in θ = atan(t / √ν) (Abramowitz and Stegun,
    26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        theta = (low + high) / 2
        if _central(theta, freedom) < 2 * probability - 1:
            low = theta
        else:
            high = theta
    return math.sqrt(freedom) * math.tan(low)


def _central(theta: float, freedom: int) -> float:
    """The probability of |t| ≤ √ν tan θ."""
    cosine = math.cos(theta)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):  # terms of cos^(k-1) θ
        total += term
        term *= cosine**2 * k / (k + 1)
    total *= math.sin(theta)
    return 2 / math.pi * (theta + total) if odd else total
