"""How much a series moves by itself, measured so that its own steps and lone spikes hardly disturb it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

#: Between processes of one build on one GPU, relative: what is assumed before a case has shown its own.
PRIOR_SPREAD = 0.02
#: As many differences of the case's own weigh as much as the prior.
PRIOR_WEIGHT = 8
#: Quantile of |difference| that the scale is read from: two modes of 12 % of the runs or more count, a few
#: spikes do not. `_NORMAL` is where a standard normal |x| has it.
_QUANTILE, _NORMAL = 0.8, 1.2816
_NORMAL_MEDIAN = 0.6745
#: Differences beyond so many scales are cut before their mean square is taken.
_CUT = 3.0
_MOST_CORRELATED = 0.95
#: From so few differences no correlation can be read.
_FEWEST = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """`sigma` is of one point, of logarithms, hence relative; `rho` the correlation of neighbours; `weight`
    how many independent differences it rests on, the prior's included."""

    sigma: float
    rho: float
    weight: float

    def variance_of_mean(self, n: int) -> float:
        """Of n successive points of a first-order autoregression: σ²/n (1 + 2 Σ (1 − k/n) ρ^k), summed."""
        rho = self.rho
        inflation = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)
        return self.sigma**2 * max(inflation, 1.0) / n


def own_spread(logs: Array) -> tuple[float, float] | None:
    """(σ, ρ) of a series' logarithms, or None if there is no difference of neighbours to read them from.

    σ comes from differences of neighbours, which a step disturbs once; ρ from the mean squares of differences
    over two and over one, whose ratio is 1 + ρ in a first-order autoregression (Chakar et al., "A robust
    approach for estimating change-points in the mean of an AR(1) process", 2017, there with medians).
    """
    one = np.abs(np.diff(logs))
    if not len(one):
        return None
    scale = float(np.quantile(one, _QUANTILE)) / _NORMAL
    two = np.abs(logs[2:] - logs[:-2])
    rho = 0.0
    if len(two) >= _FEWEST and scale > 0:
        wider = float(np.quantile(two, _QUANTILE)) / _NORMAL
        ratio = np.mean(np.minimum(two, _CUT * wider) ** 2) / np.mean(np.minimum(one, _CUT * scale) ** 2)
        rho = min(max(float(ratio) - 1, 0.0), _MOST_CORRELATED)
    return scale / math.sqrt(2 * (1 - rho)), rho


def noise_of(logs: Array, spread: float | None = None) -> Noise:
    """What is to be expected of a series: its own spread, and the prior for as long as it has little of it.

    `spread`, if given, is used in its place: the relative standard deviation of one point.
    """
    sigma, rho = own_spread(logs) or (0.0, 0.0)
    return _weighed(sigma, rho, max(len(logs) - 1, 0), spread)


def noise_of_few(logs: Array, step: int | None = None, spread: float | None = None) -> Noise:
    """The same of a few points, whose steps are many among their differences: by the median difference, and
    without that to the point at index `step`."""
    one = np.abs(np.diff(logs))
    if step is not None:
        one = np.delete(one, step - 1)
    sigma = float(np.median(one)) / (_NORMAL_MEDIAN * math.sqrt(2)) if len(one) else 0.0
    return _weighed(sigma, 0.0, len(one), spread)


def _weighed(sigma: float, rho: float, n: int, spread: float | None) -> Noise:
    weight = PRIOR_WEIGHT + n
    if spread is None:
        spread = math.sqrt((PRIOR_WEIGHT * PRIOR_SPREAD**2 + n * sigma**2) / weight)
    return Noise(spread, rho, weight)


def errors_of(samples: Sequence[Sequence[float] | None], chosen: npt.NDArray[np.intp]) -> Array:
    """Relative variance of each chosen run's median by its own samples, 0 where it has fewer than two.

    1.2533² σ²/n, that of the median of n normal samples, with σ from their median absolute deviation.
    """
    return np.array([_variance_of_median(samples[i]) for i in chosen])


def _variance_of_median(samples: Sequence[float] | None) -> float:
    if samples is None:
        return 0.0
    values = np.asarray(samples, dtype=np.float64)
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) < 2:
        return 0.0
    logs = np.log(values)
    sigma = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
    return math.pi / 2 * sigma**2 / len(values)


def normal_of_student(t: float, freedom: float) -> float:
    """The normal deviate as likely as Student's t (Wallace 1959), good to some 0.1 % from 3 degrees on."""
    return _wallace(freedom) * math.sqrt(freedom * math.log1p(t * t / freedom))


def student_of_normal(z: float, freedom: float) -> float:
    """The inverse of `normal_of_student`."""
    return math.sqrt(freedom * math.expm1((z / _wallace(freedom)) ** 2 / freedom))


def _wallace(freedom: float) -> float:
    return (8 * freedom + 1) / (8 * freedom + 3)
