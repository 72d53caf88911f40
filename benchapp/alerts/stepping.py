"""From a series' ordered observations to its steps, by `benchapp.alerts.detect`. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any

from benchapp.alerts.detect import Change as Step
from benchapp.alerts.detect import detect
from benchapp.alerts.points import Point

#: Up to so many observations, each stack is held against the one before it alone.
FEW = 10
#: Of two stacks measured in the same days, a step between them has to be seen in those days to this share.
_SEEN = 0.5


def steps(points: Sequence[Point], **settings: Any) -> list[Step]:
    """The steps of ordered points; `settings` are those of `detect`. A step with nothing but doubtful points
    on a side is left uncertain."""
    found = _between_stacks(points, settings) if len(points) <= FEW else _found(points, settings)
    kept = [step for step in found if seen_side_by_side(points, step.index, step.ratio)]
    bounds = [0, *(step.index for step in kept), len(points)]
    return [
        dataclasses.replace(step, certain=step.certain and not _doubtful(points, bounds[i : i + 3]))
        for i, step in enumerate(kept)
    ]


def _found(points: Sequence[Point], settings: dict[str, Any]) -> list[Step]:
    return detect(
        [p.median for p in points],
        [p.samples or None for p in points],
        [p.stack_id for p in points],
        **settings,
    )


def _between_stacks(points: Sequence[Point], settings: dict[str, Any]) -> list[Step]:
    """Steps of a series with a run or two of each stack. Every upgrade may have moved it, so that no spread
    can be read across several: each is judged by the two stacks on its sides."""
    levels = [list(level) for _, level in groupby(points, key=lambda p: p.stack_id)]
    if len(levels) < 3:
        return _found(points, settings)
    found: dict[int, Step] = {}
    start = 0
    for old, new in pairwise(levels):
        for step in _found([*old, *new], settings):
            index = start + step.index
            found.setdefault(index, dataclasses.replace(step, index=index))
        start += len(old)
    return [found[index] for index in sorted(found)]


def _doubtful(points: Sequence[Point], bounds: Sequence[int]) -> bool:
    start, at, end = bounds
    return all(p.doubtful for p in points[start:at]) or all(p.doubtful for p in points[at:end])


def seen_side_by_side(points: Sequence[Point], at: int, ratio: float) -> bool:
    """Whether a step between two stacks that were measured in the same days shows in those days too.

    Where a machine moved while two stacks took turns, the old stack's last points and the new one's first lie
    on either side of that move, and by version it would look like an upgrade's doing. True where the stacks
    never met, or the point before `at` has the same one.
    """
    before, after = points[at - 1].stack_id, points[at].stack_id
    old = [p for p in points if p.stack_id == before]
    new = [p for p in points if p.stack_id == after and old[0].at <= p.at <= old[-1].at]
    if before == after or not new:
        return True
    # each beside the old stack's nearest in time, so that a move of both cancels out
    beside = [min(old, key=lambda p: abs(p.at - each.at)) for each in new]
    moved = median(math.log(each.median / other.median) for each, other in zip(new, beside, strict=True))
    return moved * math.log(ratio) > 0 and abs(moved) >= _SEEN * abs(math.log(ratio))
