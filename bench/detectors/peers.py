"""The detectors that are compared, each in an environment of its own, as a child that speaks JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.detectors.sets import Series
from bench.result import Failed


class Unavailable(Exception):
    """An environment that cannot be made, with the reason."""


HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
_BUILT = ".built"
_SECONDS = 7200


@dataclasses.dataclass(frozen=True, slots=True)
class Detector:
    """`name` as the child knows it; `environment` a file of `requirements/`, or "" for this Python;
    `all_title` of a column that counts uncertain points too, where a detector has such."""

    name: str
    title: str
    environment: str
    all_title: str = ""


OURS = Detector("ours", "Tilewatch, certain", "", "… and suspects")
DETECTORS = (
    OURS,
    Detector("otava", "Otava 0.8.0", "otava"),
    Detector("otava-2", "Otava, magnitude 2 %", "otava"),
    Detector("pelt", "ruptures 1.1.10, PELT", "ruptures"),
    Detector("asv", "asv 0.6.6, regressions over 5 %", "asv", "… every step"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """CPU milliseconds a series; for each series the points found, as (index, certain)."""

    ms: float
    found: list[list[tuple[int, bool]]]


def python_of(environment: str, home: Path) -> Path:
    """The Python of a detector's environment, which is made in `home` where it is missing or out of date.

    Raises Unavailable where pip cannot.
    """
    if not environment:
        return Path(sys.executable)
    requirements = HERE / "requirements" / f"{environment}.txt"
    wanted = requirements.read_text(encoding="utf-8")
    folder = home / "bench" / "detectors" / environment
    python, built = folder / "bin" / "python", folder / _BUILT
    if built.is_file() and built.read_text(encoding="utf-8") == wanted:
        return python
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [
            str(python),
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            "-r",
            str(requirements),
        ],
    ):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            last = (ended.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise Unavailable(f"its environment could not be made: {last}")
    built.write_text(wanted, encoding="utf-8")
    return python


def ask(detector: Detector, python: Path, sets: Mapping[str, Sequence[Series]]) -> dict[str, Answer]:
    """What a detector finds in each series of each set. Raises Failed."""
    # Safe path: this folder's modules must not stand in for those that a detector imports.
    variables = os.environ | {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if detector == OURS:
        variables["PYTHONPATH"] = str(REPOSITORY)
    ended = subprocess.run(
        [str(python), str(HERE / "child.py"), detector.name],
        input=json.dumps(sets),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=variables,
        check=False,
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise Failed(f"{detector.title} ended with {ended.returncode}: {last}")
    return {
        name: Answer(each["ms"], [[(index, certain) for index, certain in found] for found in each["found"]])
        for name, each in json.loads(ended.stdout).items()
    }
