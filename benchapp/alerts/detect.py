"""Steps in the series of one case on one GPU: which changes of level are real, and how sure that is.

Pure numpy. As a command: `python -m benchapp.alerts.detect FILE.csv`. docs/detection.md has the method, its
goals and how it compares with other detectors.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from benchapp.alerts.detection_cuts import Cut, cuts
from benchapp.alerts.detection_noise import Array, errors_of, own_spread, student_of_normal
from benchapp.alerts.detection_split import misfits

MIN_EFFECT = 0.02
MINIMUM_HISTORY = 10
#: Values beyond these, in whatever unit, are no times.
_SMALLEST, _LARGEST = 1e-100, 1e100
#: How much worse, in standard deviations, another cut may fit and still not be told apart: 1.92 of
#: log-likelihood under Laplace's distribution, whose scale is σ / √2.
_AS_GOOD = 1.36
_NORMAL_95 = 1.959964
#: The median of normal values is so much less sure than their mean.
_MEDIAN = 1.2533


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A step. `before` and `after` are medians of the segments, in the unit of the values; `low` and `high`
    are the 95 % interval of `ratio`; `certain` is False where a confirm run or more points must decide."""

    index: int
    before: float
    after: float
    ratio: float
    low: float
    high: float
    confidence: float
    certain: bool
    worse: bool
    n_before: int
    n_after: int


def detect(
    values: Sequence[float | None] | Array,
    samples: Sequence[Sequence[float] | None] | None = None,
    groups: Sequence[Hashable] | None = None,
    *,
    lower_is_better: bool = True,
    minimum_history: int = MINIMUM_HISTORY,
    spread: float | None = None,
    min_effect: float = MIN_EFFECT,
) -> list[Change]:
    """The steps of a series, in order; `Change.index` is the first point of the new level in `values`.

    `values` are one a run, in order; None, NaN, infinities and what is not positive are missing. `samples`
    are those of each run, in the same unit; they widen what is expected of points that were measured badly.
    `groups` says what each point was measured with: a step that fits as well at a change of group is put
    there. `spread` is the relative standard deviation of one run, in place of the series' own;
    `minimum_history` the points before a step without which it stays uncertain; `min_effect` the relative
    size from which a step counts. Raises ValueError if lengths differ or a number is out of range.
    """
    _check(len(values), samples, groups, minimum_history, spread, min_effect)
    raw = _floats(values)
    usable = _usable(raw)
    raw = raw[usable]
    logs = np.log(raw)
    found = cuts(
        logs,
        None if samples is None else errors_of(samples, usable),
        minimum_history=minimum_history,
        spread=spread,
        min_effect=min_effect,
    )
    bounds = [0, *(cut.at for cut in found), len(logs)]
    for i, cut in enumerate(found, start=1):
        start, end = bounds[i - 1], bounds[i + 1]
        bounds[i] = _place(
            logs, start, cut, end, None if groups is None else [groups[k] for k in usable[start:end]]
        )
    return [
        _change(
            raw[bounds[i - 1] : bounds[i]],
            raw[bounds[i] : bounds[i + 1]],
            int(usable[bounds[i]]),
            cut,
            lower_is_better,
        )
        for i, cut in enumerate(found, start=1)
    ]


def spread(values: Sequence[float | None] | Array) -> float | None:
    """Relative standard deviation of one run of a series, steps and lone spikes aside; None for one point."""
    raw = _floats(values)
    own = own_spread(np.log(raw[_usable(raw)]))
    return None if own is None else own[0]


def _check(
    n: int,
    samples: Sequence[object] | None,
    groups: Sequence[object] | None,
    minimum_history: int,
    spread: float | None,
    min_effect: float,
) -> None:
    for name, other in (("samples", samples), ("groups", groups)):
        if other is not None and len(other) != n:
            raise ValueError(f"{name}: expected one for each of {n} values, got {len(other)}.")
    if minimum_history < 1:
        raise ValueError(f"minimum_history: expected 1 or more, got {minimum_history}.")
    if spread is not None and not 0 < spread < 1:
        raise ValueError(f"spread: expected a share between 0 and 1, got {spread}.")
    if not 0 <= min_effect < 10:
        raise ValueError(f"min_effect: expected a share from 0 to 10, got {min_effect}.")


def _floats(values: Sequence[float | None] | Array) -> Array:
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _usable(raw: Array) -> npt.NDArray[np.intp]:
    return np.flatnonzero((raw >= _SMALLEST) & (raw <= _LARGEST))


def _place(logs: Array, start: int, cut: Cut, end: int, groups: list[Hashable] | None) -> int:
    """Where between its neighbours a step fits best; at a change of group if that fits as well."""
    part, at = logs[start:end], cut.at - start
    costs = misfits(part, float(np.median(part[:at])), float(np.median(part[at:])))[1:-1]
    best = int(costs.argmin())
    if groups is not None:
        limit = costs[best] + _AS_GOOD * cut.noise.sigma
        borders = [i for i in range(len(costs)) if groups[i] != groups[i + 1] and costs[i] <= limit]
        best = min(borders, key=lambda i: float(costs[i]), default=best)
    return start + best + 1


def _change(before: Array, after: Array, index: int, cut: Cut, lower_is_better: bool) -> Change:
    was, now = _median(before), _median(after)
    moved = math.log(now) - math.log(was)
    wide = student_of_normal(_NORMAL_95, cut.noise.weight) * _MEDIAN * cut.error
    confidence = 1 - min(1.0, (len(before) + len(after)) * math.erfc(cut.z / math.sqrt(2)))
    if not cut.certain:
        fewer = min(len(before), len(after))
        confidence *= fewer / (fewer + 1)
    return Change(
        index=index,
        before=was,
        after=now,
        ratio=now / was,
        low=_exp(moved - wide),
        high=_exp(moved + wide),
        confidence=confidence,
        certain=cut.certain,
        worse=(now > was) == lower_is_better,
        n_before=len(before),
        n_after=len(after),
    )


def _median(values: Array) -> float:
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] / 2 + ordered[len(ordered) // 2] / 2)


def _exp(logarithm: float) -> float:
    return math.exp(min(max(logarithm, -700.0), 700.0))


if __name__ == "__main__":
    from benchapp.alerts.detection_csv import main

    sys.exit(main(sys.argv[1:]))
