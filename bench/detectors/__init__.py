"""Our step detector beside Otava's, ruptures' and asv's on the same series, in one run; then point by point.

docs/detection.md carries the tables of one run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from bench.detectors import online, tables
from bench.detectors.peers import DETECTORS, OURS, Detector, Unavailable, ask, python_of
from bench.detectors.sets import GOAL_NULLS, LENGTH, OTHER_NULLS, STEPS, Draw, Series, recorded
from bench.detectors.tables import Answers
from bench.result import Result, Skipped
from bench.stand import Stand

SERIES = 1_000
#: The others see the first so many of each set: they take longer, and no goal is theirs.
OTHERS_SERIES = 300
#: Where the recorded series are looked for: this variable's folder, or beside the project.
FOLDER = "TILEWATCH_SERIES"
BESIDE = Path("..", "shared", "samples", "series")


def run(stand: Stand) -> Iterator[Result | Skipped]:
    """Some minutes of CPU. The tables are also left in the installation's folder."""
    many = stand.size(SERIES, 50)
    drawn = _drawn(many, stand.seed)
    real = dict(recorded(Path(os.environ.get(FOLDER, BESIDE))))
    pythons: dict[Detector, Path] = {}
    for each in DETECTORS:
        try:
            pythons[each] = python_of(each.environment, stand.real_home)
        except Unavailable as unavailable:
            yield Skipped(each.title, str(unavailable))
    # All at once: what is counted is CPU time.
    with ThreadPoolExecutor() as pool:
        replaying = pool.submit(online.replay, stand.size(100, 5), stand.size(2_000, 100), stand.seed)
        few = {name: series[:OTHERS_SERIES] for name, series in drawn.items()}
        asked = {
            each: pool.submit(ask, each, python, (drawn if each == OURS else few) | real)
            for each, python in pythons.items()
        }
        answers: Answers = {each: future.result() for each, future in asked.items()}
        replayed = replaying.result()
    text = "\n\n".join(
        [
            tables.nulls(answers, [*GOAL_NULLS, *OTHER_NULLS]),
            tables.steps(answers, STEPS),
            tables.cost(answers, list(drawn)),
            *([tables.real(answers, list(real))] if real else []),
            online.table(replayed),
        ]
    )
    folder = stand.real_home / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "detectors.md").write_text(text + "\n", encoding="utf-8")
    print(text, end="\n\n")
    for peer in [each for each in answers if each != OURS]:
        ours, theirs = (tables.milliseconds(answers[each], list(drawn)) / 1e3 for each in (OURS, peer))
        yield Result(f"steps in a series of {LENGTH}", ours, peer.title, theirs, "CPU time")
    if not real:
        yield Skipped("recorded series", f"no files in {BESIDE} nor in the folder of {FOLDER}")


def _drawn(many: int, seed: int) -> dict[str, list[Series]]:
    """Each series has a generator of its own, so that a set more leaves the others as they were."""
    draws: dict[str, Draw] = GOAL_NULLS | OTHER_NULLS | {name: step.series for name, step in STEPS.items()}
    return {
        name: [draw(np.random.default_rng((seed, which, i)), LENGTH).tolist() for i in range(many)]
        for which, (name, draw) in enumerate(draws.items())
    }
