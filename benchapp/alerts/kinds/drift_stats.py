"""Slow drift of a series, and one GPU among its siblings. Pure numpy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

#: What moves less is no drift, whatever its interval.
LEAST = 0.02
#: Of a trend: measurements and days of them.
POINTS, DAYS = 14, 10
#: Two-sided 99.9 % of a normal: every GPU has several reference cases, and each is looked at every hour.
_Z = 3.290527
#: Times of one product's GPUs differ by about so much, relative (one sigma): assumed beside what is seen,
#: with the weight of so many GPUs.
_PRIOR, _WEIGHT = 0.01, 4
#: Sigmas that a GPU lies above its siblings.
_APART = 4.0
SIBLINGS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Trend:
    """How far a series went over `days`, as a ratio to where it began, with its 99.9 % interval."""

    ratio: float
    low: float
    high: float
    days: float
    points: int

    @property
    def is_drift(self) -> bool:
        """Slower by more than LEAST, wherever in its interval the trend lies."""
        return self.low > 1 + LEAST


def trend(days: Sequence[float], values: Sequence[float]) -> Trend | None:
    """The trend of positive values at these days (any origin), over their span; None for too few.

    Slope by Theil and Sen, of logarithms of each day's median; interval from Kendall's statistic (Sen,
    "Estimates of the regression coefficient based on Kendall's tau", 1968).
    """
    if len(values) < POINTS:
        return None
    at = np.asarray(days, dtype=np.float64)
    x, place = np.unique(np.floor(at - at.min()), return_inverse=True)
    if len(x) < DAYS:
        return None
    logs = np.log(np.asarray(values, dtype=np.float64))
    y = np.array([np.median(logs[place == i]) for i in range(len(x))])
    slope, low, high = theil_sen(x, y)
    span = float(x[-1] - x[0])
    ratio, least, most = (math.exp(each * span) for each in (slope, low, high))
    return Trend(ratio, least, most, span, len(values))


def theil_sen(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """(slope, low, high): median of the slopes of all pairs with its 99.9 % interval; `x` ascends."""
    i, j = np.triu_indices(len(x), 1)
    slopes = np.sort((y[j] - y[i]) / (x[j] - x[i]))
    n, pairs = len(x), len(slopes)
    reach = _Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, math.floor((pairs - reach) / 2))
    high = min(pairs - 1, math.ceil((pairs + reach) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def slower_than_siblings(levels: Mapping[str, float]) -> dict[str, float]:
    """GPUs of one product and configuration that are slower than the others, with the ratio to the others'
    median. `levels` are seconds of one case, by GPU.

    The others' spread is their median absolute deviation, with a prior; nothing can be said of fewer than
    three GPUs.
    """
    found = {}
    for name, level in levels.items():
        others = np.log([other for who, other in levels.items() if who != name])
        if len(others) < SIBLINGS:
            continue
        middle = float(np.median(others))
        own = 1.4826 * float(np.median(np.abs(others - middle)))
        sigma = math.sqrt((_WEIGHT * _PRIOR**2 + len(others) * own**2) / (_WEIGHT + len(others)))
        over = math.log(level) - middle
        if over > max(math.log1p(LEAST), _APART * sigma):
            found[name] = math.exp(over)
    return found
