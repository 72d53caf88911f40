"""The series that detectors are compared on: drawn ones whose steps are known, and recorded ones."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Series: TypeAlias = list[float]
Array: TypeAlias = npt.NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Array]

LENGTH = 200
LEVEL = 100.0
_WARM = 100


def gaussian(random: np.random.Generator, n: int) -> Array:
    return LEVEL * (1 + 0.01 * random.standard_normal(n))


def two_modes(random: np.random.Generator, n: int, share: float = 0.3) -> Array:
    """Each process of a run is in one of two modes, 12 % apart."""
    return gaussian(random, n) * np.where(random.random(n) < share, 1.12, 1.0)


def rare_mode(random: np.random.Generator, n: int) -> Array:
    return two_modes(random, n, share=0.08)


def spikes(random: np.random.Generator, n: int) -> Array:
    return gaussian(random, n) * np.where(random.random(n) < 0.03, 1.15, 1.0)


def drifting(random: np.random.Generator, n: int) -> Array:
    """AR(1): ρ 0.8, innovations of 0.6 %."""
    innovations = 0.006 * random.standard_normal(n + _WARM)
    level, at = np.empty(n + _WARM), 0.0
    for i, innovation in enumerate(innovations):
        at = 0.8 * at + innovation
        level[i] = at
    return LEVEL * (1 + level[_WARM:])


def heavy_tails(random: np.random.Generator, n: int) -> Array:
    """Student's t with three degrees of freedom, scale 1 %."""
    return LEVEL * (1 + 0.01 * random.standard_t(3, n))


def long_drift(random: np.random.Generator, n: int) -> Array:
    """Gaussian 1 % around a level that creeps up by 5 % over the series."""
    return gaussian(random, n) * np.linspace(1, 1.05, n)


#: The four null sets of the goals, and three more that no goal asks for.
GOAL_NULLS: dict[str, Draw] = {
    "Gaussian, 1 %": gaussian,
    "two modes 12 % apart, 70:30": two_modes,
    "3 % of points spike by 15 %": spikes,
    "AR(1), ρ 0.8, innovations 0.6 %": drifting,
}
OTHER_NULLS: dict[str, Draw] = {
    "two modes 12 % apart, 92:8": rare_mode,
    "heavy tails (t₃, 1 %)": heavy_tails,
    "creeping up by 5 %": long_drift,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A set of series with a step of relative `size` before the last `later` points; with `recovers`, the
    level is back after so many, and both edges are to be found."""

    draw: Draw
    size: float
    later: int
    recovers: int = 0

    def at(self, n: int = LENGTH) -> list[int]:
        start = n - self.later
        return [start, start + self.recovers] if self.recovers else [start]

    def series(self, random: np.random.Generator, n: int) -> Array:
        values = self.draw(random, n)
        start, *end = self.at(n)
        values[slice(start, *(end or [n]))] *= 1 + self.size
        return values


STEPS: dict[str, Step] = {
    "+5 %, 1 later point": Step(gaussian, 0.05, 1),
    "+5 %, 3 later": Step(gaussian, 0.05, 3),
    "−5 %, 3 later": Step(gaussian, -0.05, 3),
    "+5 %, 6 later": Step(gaussian, 0.05, 6),
    "−5 %, 6 later": Step(gaussian, -0.05, 6),
    "+3 %, 12 later": Step(gaussian, 0.03, 12),
    "+3 %, 50 later": Step(gaussian, 0.03, 50),
    "−3 %, 50 later": Step(gaussian, -0.03, 50),
    "+5 % for 8 points, then back: both edges": Step(gaussian, 0.05, 60, recovers=8),
    "+5 %, 6 later, among spikes": Step(spikes, 0.05, 6),
    "+5 %, 50 later, two modes": Step(two_modes, 0.05, 50),
    "+15 %, 50 later, two modes": Step(two_modes, 0.15, 50),
    "+5 %, 50 later, AR(1)": Step(drifting, 0.05, 50),
}


def recorded(folder: Path) -> Iterator[tuple[str, list[Series]]]:
    """(what it is, its series) for each file of recorded series that is there."""
    if (metal := folder / "metal_jl_2026-06-05_long.csv.gz").is_file():
        yield "Metal.jl, 79 series of up to 210 commits", _metal(metal)
    if (histostat := folder / "histostat.csv").is_file():
        yield "histostat, p50 by tag, 3 points each", _histostat(histostat)
    if (one := folder / "real_series.json").is_file():
        yield "one series, two outliers, no step", [json.loads(one.read_text(encoding="utf-8"))]


def _metal(path: Path) -> list[Series]:
    found: dict[str, Series] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["name"], []).append(float(row["value"]))
    return list(found.values())


def _histostat(path: Path) -> list[Series]:
    lines = path.read_text(encoding="utf-8").splitlines()
    head = next(line for line in lines if line.startswith("#Tag"))[1:].split(",")
    found: dict[str, Series] = {}
    for cells in csv.reader(line for line in lines if line and not line.startswith("#")):
        found.setdefault(cells[0], []).append(float(cells[head.index("p50")]))
    return [series for series in found.values() if min(series) > 0]
