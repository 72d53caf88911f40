"""From the events of torch's profiler to the kernels of each step, and the part that launched each. Pure.

A kernel bears the correlation id of the call that launched it; that call lies within the step and the part
that were marked around it on the host. All kernels of a replayed graph bear the graph's.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import cast

from workers.bench.decoder.marks import PREFIX
from workers.bench.document import Part

#: marks one step
STEP = "tilewatch step"
#: calls of the runtime and of the driver; ids of torch's own operators are of another counting
_LAUNCHING = re.compile(r"(cuda|cu[A-Z])\w+")
#: ranges that may lie within one another before the one around them
_NESTED = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Nanoseconds of one clock. `marked`: a range that somebody named, which the profiler shows on the GPU
    as well, around its kernels."""

    name: str
    start: int
    end: int
    on_gpu: bool
    marked: bool
    correlation: int


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Kernel:
    """A kernel, copy or fill; `part` None where no range launched it."""

    start: int
    end: int
    name: str
    part: Part | None


def kernels(events: Iterable[Event]) -> list[list[Kernel]]:
    """Those of each step, in the order in which they began. What no call is known of belongs where the one
    before it does."""
    steps, ranges, launches, ran = [], [], {}, []
    for each in events:
        if each.on_gpu:
            if not each.marked:
                ran.append(each)
        elif each.marked:
            if each.name == STEP:
                steps.append((each.start, each.end))
            elif each.name.startswith(PREFIX):
                ranges.append((each.start, each.end, cast(Part, each.name.removeprefix(PREFIX))))
        elif _LAUNCHING.match(each.name):
            launches[each.correlation] = each.start
    steps.sort()
    ranges.sort()
    starts = [start for start, _, _ in ranges]
    found: list[list[Kernel]] = [[] for _ in steps]
    step, part = 0, None
    for each in sorted(ran, key=lambda each: (each.start, each.end)):
        at = launches.get(each.correlation)
        if at is not None:
            inside = bisect.bisect_right(steps, (at, float("inf"))) - 1
            if inside < 0 or at > steps[inside][1]:
                continue  # of what was done between steps
            step, part = inside, _innermost(ranges, starts, at)
        if found:
            found[step].append(Kernel(each.start, each.end, each.name, part))
    return found


def marked(events: Iterable[Event]) -> list[tuple[int, int, list[tuple[int, int, Part]]]]:
    """Of each step its begin, its end, and the ranges of parts within: what a CPU did."""
    told = [each for each in events if each.marked and not each.on_gpu]
    ranges = sorted(
        (each.start, each.end, cast(Part, each.name.removeprefix(PREFIX)))
        for each in told
        if each.name.startswith(PREFIX)
    )
    steps = sorted((each.start, each.end) for each in told if each.name == STEP)
    return [
        (begin, end, [each for each in ranges if begin <= each[0] and each[1] <= end]) for begin, end in steps
    ]


def _innermost(ranges: Sequence[tuple[int, int, Part]], starts: Sequence[int], at: int) -> Part | None:
    """The range of latest start around a moment: ranges of one thread nest, and few are open at once."""
    last = bisect.bisect_right(starts, at) - 1
    for index in range(last, max(-1, last - _NESTED), -1):
        if ranges[index][1] >= at:
            return ranges[index][2]
    return None
