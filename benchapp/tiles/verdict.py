"""From findings to a verdict: pure, so that every verdict can be derived again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Protocol, TypeVar

from benchapp.tiles.models import Stage

LADDER = tuple(Stage)
#: What a finding rests on, from weakest to strongest: somebody else's file, the sources, the compiler (a
#: deep tier over a shallow one), our own device.
STRENGTH = {
    ("imported", ""): 0,
    ("heuristic", ""): 1,
    ("generator", ""): 1,
    ("compiler", "types"): 2,
    ("compiler", "body"): 3,
    ("compiler", "full"): 4,
    ("device", ""): 5,
}


class Found(Protocol):
    """What a verdict needs of a finding; `benchapp.tiles.models.Evidence` has it."""

    stage: str
    passed: bool
    source: str
    tier: str
    reason: str
    found_at: dt.datetime


F = TypeVar("F", bound=Found)


def deciding(findings: Iterable[F]) -> dict[Stage, F]:
    """For each stage the finding that counts: the strongest, and of equals the newest."""
    chosen: dict[Stage, F] = {}
    for finding in findings:
        stage = Stage(finding.stage)
        rival = chosen.get(stage)
        if rival is None or _weight(finding) >= _weight(rival):
            chosen[stage] = finding
    return chosen


def _weight(finding: Found) -> tuple[int, dt.datetime]:
    tier = finding.tier if finding.source == "compiler" else ""
    return STRENGTH.get((finding.source, tier), 0), finding.found_at


def climb(findings: Iterable[F]) -> tuple[F | None, F | None]:
    """Walk the ladder: (finding of the highest stage passed, finding that stopped it or None).

    A stage nobody tested is stepped over, since a later success implies it; the first failure ends the walk.
    """
    chosen = deciding(findings)
    highest: F | None = None
    for stage in LADDER:
        finding = chosen.get(stage)
        if finding is None:
            continue
        if not finding.passed:
            return highest, finding
        highest = finding
    return highest, None
