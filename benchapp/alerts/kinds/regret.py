"""Regret: what a choice costs against the best that was measured beside it. Pure.

regret = time(chosen) / time(best) − 1, both of one case on one GPU in one document, best among backends whose
results are correct. Nothing in it was not measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: Less is no regret: two measurements of one kernel may differ by as much.
LEAST = 0.02


@dataclasses.dataclass(frozen=True, slots=True)
class Time:
    """Median and quartiles of a backend's time, in seconds."""

    median: float
    q1: float
    q3: float
    kernel: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Regret:
    best: str
    chosen_s: float
    best_s: float

    @property
    def share(self) -> float:
        return self.chosen_s / self.best_s - 1


def of(chosen: str, times: Mapping[str, Time]) -> Regret | None:
    """The regret of choosing the backend `chosen` among these; None for the best, or for less than LEAST, or
    where the quartiles of both meet."""
    own = times[chosen]
    others = {name: time for name, time in times.items() if name != chosen and time.kernel != own.kernel}
    if not others:
        return None
    best = min(others, key=lambda name: (others[name].median, name))
    regret = Regret(best, own.median, others[best].median)
    apart = own.q1 > others[best].q3
    return regret if apart and regret.share > LEAST else None


def came_with(before: Mapping[str, Time], after: Mapping[str, Time], chosen: str) -> Regret | None:
    """The regret of a backend that has another kernel after than before, if it was not as great before.

    Before, the regret is that among the same backends; where only the chosen one was measured then, it came
    with the change if the chosen one is not faster now.
    """
    now, was = after.get(chosen), before.get(chosen)
    if now is None or was is None or not now.kernel or not was.kernel or now.kernel == was.kernel:
        return None
    found = of(chosen, after)
    if found is None:
        return None
    if found.best in before:
        earlier = was.median / before[found.best].median - 1
        return found if found.share - earlier > LEAST else None
    return found if now.median >= was.median else None
