"""Runs one detector over sets of series, in its own environment: `python child.py NAME < SETS`.

SETS is {set: [[value, …], …]}; written is {set: {"ms": CPU milliseconds a series,
"found": [[[index, certain], …], …]}}. Each detector is called as its own documentation does it; where it has
no default, the choice stands here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

Found: TypeAlias = list[tuple[int, bool]]
#: Of asv's report of regressions, and of Otava with its `min_magnitude`.
ASV_THRESHOLD, OTAVA_MAGNITUDE = 0.05, 0.02


def ours() -> Callable[[list[float]], Found]:
    from benchapp.alerts.detect import detect

    return lambda series: [(change.index, change.certain) for change in detect(series)]


def otava(min_magnitude: float = 0.0) -> Callable[[list[float]], Found]:
    """Window 50 and p < 0.001, its defaults."""
    from otava.analysis import compute_change_points  # type: ignore[import-not-found]

    def run(series: list[float]) -> Found:
        points, _ = compute_change_points(
            list(series), window_len=50, max_pvalue=0.001, min_magnitude=min_magnitude
        )
        return [(int(point.index), True) for point in points]

    return run


def pelt() -> Callable[[list[float]], Found]:
    """Least squares with 2 σ² ln n a segment, σ by median difference, segments of three points or more.

    Its compiled `KernelCPD` with the linear kernel, which with a penalty is PELT on the same cost as its
    `Pelt`, that takes about half a second for each series.
    """
    import numpy as np
    import ruptures  # type: ignore[import-not-found]

    def run(series: list[float]) -> Found:
        values = np.array(series)
        if len(values) < 6:
            return []
        sigma = float(np.median(np.abs(np.diff(values)))) / 0.6745 / 2**0.5
        penalty = 2 * max(sigma, 1e-12) ** 2 * float(np.log(len(values)))
        ends = ruptures.KernelCPD(kernel="linear", min_size=3).fit(values.reshape(-1, 1)).predict(pen=penalty)
        return [(int(end), True) for end in ends[:-1]]

    return run


def asv() -> Callable[[list[float]], Found]:
    """Every step of its fit; certain are those of its report: only towards slower, over its threshold."""
    from asv.step_detect import detect_regressions, detect_steps  # type: ignore[import-not-found]

    def run(series: list[float]) -> Found:
        steps = detect_steps(series)
        _, _, positions = detect_regressions(steps, threshold=ASV_THRESHOLD)
        reported = {position[1] for position in positions or ()}
        return [(int(step[0]), step[0] in reported) for step in steps[1:]]

    return run


DETECTORS: dict[str, Callable[[], Callable[[list[float]], Found]]] = {
    "ours": ours,
    "otava": otava,
    "otava-2": lambda: otava(OTAVA_MAGNITUDE),
    "pelt": pelt,
    "asv": asv,
}


def main() -> None:
    detector = DETECTORS[sys.argv[1]]()
    sets: dict[str, list[list[float]]] = json.load(sys.stdin)
    detector(next(iter(sets.values()))[0])  # imports and first calls are not timed
    answers = {}
    for name, every in sets.items():
        began = time.process_time()
        found = [detector(series) for series in every]
        answers[name] = {"ms": (time.process_time() - began) / len(every) * 1e3, "found": found}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
