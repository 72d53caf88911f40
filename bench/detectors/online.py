"""Series without a step, night by night, as alerts really arise: how many would open, and how many of those a
confirm run would let stand."""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bench.detectors.score import NEAR, poisson_upper
from bench.detectors.sets import GOAL_NULLS, LENGTH, OTHER_NULLS, Draw
from bench.detectors.tables import markdown
from benchapp.alerts.detect import detect
from workers.bench.confirm.judge import LOOKS, judge

#: Nights before the first that counts.
HISTORY = 20
NIGHTS = 10_000 * 7


@dataclasses.dataclass(frozen=True, slots=True)
class Replay:
    """Of one set: series-nights seen, alerts opened by certain steps and by suspects, confirm runs drawn and
    those of them that said SLOW or FAST, CPU seconds of the detector."""

    nights: int
    certain: int
    suspects: int
    confirms: int
    upheld: int
    seconds: float

    def weekly(self, opened: int) -> float:
        """Alerts a week of 10,000 nightly series."""
        return opened / self.nights * NIGHTS

    def confirmed_weekly(self) -> tuple[float, float]:
        """Those that a confirm run lets stand, and an upper bound: of both factors at 95 %."""
        opened = self.certain + self.suspects
        rate = self.weekly(opened) * self.upheld / self.confirms
        return rate, self.weekly(1) * poisson_upper(opened) * poisson_upper(self.upheld) / self.confirms


def replay(series: int, confirms: int, seed: int) -> dict[str, Replay]:
    """Each set by itself: `series` of LENGTH nights after HISTORY of them, and `confirms` confirm runs."""
    sets = GOAL_NULLS | OTHER_NULLS
    with ProcessPoolExecutor(len(sets), multiprocessing.get_context("spawn")) as pool:
        futures = {
            name: pool.submit(_replay, draw, series, confirms, seed + which)
            for which, (name, draw) in enumerate(sets.items())
        }
        return {name: future.result() for name, future in futures.items()}


def _replay(draw: Draw, series: int, confirms: int, seed: int) -> Replay:
    opened = {True: 0, False: 0}
    began = time.process_time()
    for i in range(series):
        values = draw(np.random.default_rng((seed, 1, i)), HISTORY + LENGTH)
        known: list[int] = []
        for night in range(HISTORY, len(values) + 1):
            for change in detect(values[max(0, night - LENGTH) : night]):
                at = change.index + max(0, night - LENGTH)
                if all(abs(at - other) > NEAR for other in known):
                    known.append(at)
                    # What stood before the first night is history, and no alert of these nights.
                    if night > HISTORY:
                        opened[change.certain] += 1
    seconds = time.process_time() - began
    upheld = sum(_confirm(draw, np.random.default_rng((seed, 2, i))) for i in range(confirms))
    return Replay(series * LENGTH, opened[True], opened[False], confirms, upheld, seconds)


def _confirm(draw: Draw, random: np.random.Generator) -> bool:
    """Whether A B A B … of one and the same build, drawn as successive points of the set, ends in SLOW or
    FAST: judged at each look as the confirm run is."""
    values = draw(random, 2 * LOOKS[-1])
    for pairs in LOOKS:
        verdict = judge(values[: 2 * pairs : 2].tolist(), values[1 : 2 * pairs : 2].tolist())
        if verdict.word != "AMBG":
            return verdict.word != "SAME"
    return False


def table(replays: Mapping[str, Replay]) -> str:
    """Alerts a week of 10,000 nightly series without a step."""
    rows = []
    for name, each in replays.items():
        rate, upper = each.confirmed_weekly()
        rows.append(
            [
                name,
                f"{each.nights:,}",
                f"{each.certain} / {each.suspects}",
                f"{each.weekly(each.certain):.1f} / {each.weekly(each.suspects):.1f}",
                f"{each.upheld} of {each.confirms:,}",
                f"{rate:.2f} (≤ {upper:.2f})",
                f"{each.seconds / each.nights * 1e3:.1f} ms",
            ]
        )
    head = (
        "no step, night by night",
        "series-nights",
        "opened: certain / suspect",
        "a week of 10,000 series",
        "confirm runs upholding it",
        "a week after confirmation",
        "CPU a series-night",
    )
    return markdown(head, rows)
