"""Whether a step became faster between two versions: better, worse, same or uncertain. Pure.

The verdict is that of the median step, from the interval of each median: the same limits as on the compare
page, for windows of one process each.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from benchapp.moe.points import Point
from benchapp.runs.ranking import DOUBTFUL
from workers.bench.timing import median_interval

Verdict = Literal["better", "worse", "same", "uncertain"]
GLYPHS: dict[Verdict, str] = {"better": "↑", "worse": "↓", "same": "=", "uncertain": "~"}

#: What two fresh processes of one stack may differ by, in share of the time.
MARGIN = 0.02
#: Beyond so much a change is one although each side was measured in one process only.
DIFFERS = 2 * MARGIN
#: Components named beside a change, at most.
MAX_ALSO = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """`ratio` is tok/s over tok/s before: above 1 is more. `why` says what keeps it uncertain."""

    verdict: Verdict
    ratio: float
    before: str
    why: str
    #: what else of the stack differs: "torch 2.10.0 → 2.11.0"
    also: tuple[str, ...]

    @property
    def glyph(self) -> str:
        return GLYPHS[self.verdict]

    @property
    def percent(self) -> float:
        return 100 * (self.ratio - 1)


def change(before: Point, after: Point, samples: Mapping[int, Sequence[float]]) -> Change | None:
    """What `after` is against `before`; None where either has no speed. `samples` by measurement."""
    if not before.rate or not after.rate:
        return None
    ratio = after.rate / before.rate
    verdict, why = _judge(before, after, ratio, samples)
    return Change(verdict, ratio, before.version, why, also(before, after))


def _judge(
    before: Point, after: Point, ratio: float, samples: Mapping[int, Sequence[float]]
) -> tuple[Verdict, str]:
    why = _hinders(before, after)
    if why:
        return "uncertain", why
    ends = [_interval(samples.get(point.measurement, ())) for point in (before, after)]
    if ends[0] is None or ends[1] is None:
        return "uncertain", "too few samples were kept"
    (old, old_low, old_high), (new, new_low, new_high) = ends[0], ends[1]
    # of a slice tok/s is of the projected step, and the samples of the layers measured
    if not after.sliced and abs(ratio * new / old - 1) > MARGIN:
        return "uncertain", "the window as a whole and its median step disagree"
    low, high = new_low / old_high, new_high / old_low
    if low > 1 + DIFFERS:
        return "worse", ""
    if high < 1 / (1 + DIFFERS):
        return "better", ""
    if low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN:
        return "same", ""
    return "uncertain", "within what two runs of one version may differ by"


def _hinders(before: Point, after: Point) -> str:
    """What makes two speeds no fair pair; "" where nothing does."""
    if before.target != after.target:
        return "measured on another GPU"
    if before.configuration != after.configuration:
        return "measured in another configuration"
    if before.timer != after.timer:
        return "measured by another timer"
    doubt = [flag for flag in DOUBTFUL if flag in (*before.flags, *after.flags)]
    return doubt[0].replace("_", " ") if doubt else ""


def _interval(samples: Sequence[float]) -> tuple[float, float, float] | None:
    """(median, ends of its 95 % interval)."""
    ends = median_interval(samples)
    if ends is None or ends[0] <= 0:
        return None
    return statistics.median(samples), *ends


def also(before: Point, after: Point) -> tuple[str, ...]:
    """What else of the stack is not the same, beside what the rows are called by."""
    named = before.version.rpartition(" ")[0] or "flashinfer"
    every = sorted((before.stack.keys() | after.stack.keys()) - {named})
    said = [
        f"{name} {before.stack.get(name, 'none')} → {after.stack.get(name, 'none')}"
        for name in every
        if before.stack.get(name) != after.stack.get(name)
    ]
    rest = len(said) - MAX_ALSO
    return (*said[:MAX_ALSO], f"and {rest} more") if rest > 0 else tuple(said)
