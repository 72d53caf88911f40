"""Which cuts of a series hold: many candidates, of which the weakest goes until all that stay pass."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from benchapp.alerts.detection_noise import (
    PRIOR_WEIGHT,
    Array,
    Noise,
    noise_of,
    noise_of_few,
    normal_of_student,
)
from benchapp.alerts.detection_split import SHORTEST, optimal_partition, rank_sum, without_spikes

#: A step is certain from so many standard errors on (as a normal deviate), and a suspect from the other.
CERTAIN, SUSPECT = 5.0, 4.0
#: One-sided p of the rank sum that a certain step stays under.
RANK = 1e-4
#: Series are looked at in windows of so many points, each half over the one before.
WINDOW = 400
#: Of so many points at most each may be a level of its own, such as of one run a version: all suspects.
FEW = 10
#: Newest points that are looked at by themselves.
_NEWEST = 3
#: Cost of a segment in the first fit, in variances of one point and logarithms of the length.
_PENALTY = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """A step before point `at`: its size in normal deviates, standard error of its logarithm, what it was
    judged by."""

    at: int
    z: float
    error: float
    noise: Noise
    certain: bool
    suspect: bool

    @property
    def holds(self) -> bool:
        return self.certain or self.suspect


def cuts(
    logs: Array, errors: Array | None, *, minimum_history: int, spread: float | None, min_effect: float
) -> list[Cut]:
    """The cuts that hold, in order. `logs` are natural logarithms of values, `errors` relative variances of
    the single points by their own samples."""
    n = len(logs)
    held: list[Cut] = []
    for start in range(0, max(n - WINDOW // 2, 1), WINDOW // 2):
        end = min(start + WINDOW, n)
        window = _Window(
            logs[start:end],
            None if errors is None else errors[start:end],
            history=minimum_history - start,
            spread=spread,
            effect=math.log1p(min_effect),
            is_last=end == n,
        )
        # Of a window's cuts those of its middle half count: each point lies in the middle of one window.
        low = start + WINDOW // 4 if start else 0
        high = end - WINDOW // 4 if end < n else n
        seen = held[-1].at if held else -SHORTEST
        for cut in window.cuts():
            at = start + cut.at
            if low <= at < high and at - seen >= SHORTEST:
                held.append(dataclasses.replace(cut, at=at))
    return held


class _Window:
    """Some hundred successive points, and what judges a cut of them."""

    def __init__(
        self,
        logs: Array,
        errors: Array | None,
        *,
        history: int,
        spread: float | None,
        effect: float,
        is_last: bool,
    ) -> None:
        self.logs, self.history, self.is_last = logs, history, is_last
        self.spread, self.effect = spread, effect
        self.noise = noise_of(logs, spread) if len(logs) > FEW else noise_of_few(logs, None, spread)
        self.errors = errors
        if errors is not None:
            # What runs differ by holds their own errors already, as far as it was seen.
            unseen = PRIOR_WEIGHT / self.noise.weight
            typical = float(np.median(errors)) if len(errors) else 0.0
            self.errors = unseen * errors + (1 - unseen) * np.maximum(errors - typical, 0)

    def cuts(self) -> list[Cut]:
        n = len(self.logs)
        if n < 2:
            return []
        found = self._fitted()
        if self.is_last and n > FEW:
            start = found[-1].at if found else 0
            newest = [self._judge(start, at, n) for at in range(max(n - _NEWEST, start + 1), n)]
            found += sorted((cut for cut in newest if cut.holds), key=lambda cut: cut.z)[-1:]
        return found

    def _fitted(self) -> list[Cut]:
        n = len(self.logs)
        penalty = _PENALTY * self.noise.sigma**2 * math.log(n)
        if n <= FEW:
            at = optimal_partition(self.logs, penalty, shortest=1)
        else:
            at = optimal_partition(without_spikes(self.logs), penalty)
        bounds = [0, *at, n]
        judged = {at: self._judge(*bounds[i : i + 3]) for i, at in enumerate(bounds[1:-1])}
        while weak := [cut for cut in judged.values() if not cut.holds]:
            out = bounds.index(min(weak, key=lambda cut: cut.z).at)
            del judged[bounds.pop(out)]
            for i in (out - 1, out):
                if 0 < i < len(bounds) - 1:
                    judged[bounds[i]] = self._judge(*bounds[i - 1 : i + 2])
        return [judged[at] for at in bounds[1:-1]]

    def _judge(self, start: int, at: int, end: int) -> Cut:
        before, after = self.logs[start:at], self.logs[at:end]
        by_mean = float(after.mean() - before.mean())
        by_median = float(np.median(after) - np.median(before))
        moved = (by_mean + by_median) / 2
        noise = self.noise if len(self.logs) > FEW else noise_of_few(self.logs, at, self.spread)
        variance = noise.variance_of_mean(len(before)) + noise.variance_of_mean(len(after))
        if self.errors is not None:
            variance += float(
                self.errors[start:at].mean() / len(before) + self.errors[at:end].mean() / len(after)
            )
        error = math.sqrt(variance)
        z = normal_of_student(abs(moved) / error, noise.weight)
        certain = suspect = False
        if z >= SUSPECT and min(by_mean, by_median, key=abs) * np.sign(moved) >= self.effect:
            p = rank_sum(before, after)
            enough = at >= self.history and min(len(before), len(after)) >= SHORTEST
            certain = enough and z >= CERTAIN and p <= RANK
            apart = before.max() < after.min() if moved > 0 else before.min() > after.max()
            is_newest = self.is_last and end == len(self.logs)
            can_be = 1 / math.comb(len(before) + len(after), len(before)) <= RANK
            suspect = not certain and (
                (apart and (is_newest or not can_be)) or (p <= RANK and at < self.history)
            )
        return Cut(at, z, error, noise, certain, suspect)
