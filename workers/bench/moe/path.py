"""From records of kernels to the parts of a step's critical path. Pure.

Times are integers of nanoseconds, so that parts and gaps sum to the step exactly.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TypeVar

from workers.bench.document import Part

NS = 1e9
Word = TypeVar("Word", bound=str)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Something that ran from `start` to `end`: a kernel, or on a CPU what one part did."""

    start: int
    end: int
    part: Part
    library: str
    name: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """One traced step. `parts` hold gaps too, and sum to `total`; `libraries` sum to the same less the gaps.
    `hidden` ran behind other pieces."""

    total: int
    parts: dict[Part, int]
    libraries: dict[str, int]
    hidden: int
    kernels: int


def take_apart(pieces: Sequence[Piece], begin: int, end: int) -> Taken:
    """The step between `begin` and `end`: each moment belongs to the piece that was there first, or to none.

    A piece counts for as long as no earlier one covers it; what is covered ran hidden. Pieces are cut where
    they reach beyond the step.
    """
    parts: dict[Part, int] = {}
    libraries: dict[str, int] = {}
    reached, hidden = begin, 0
    for each in sorted(pieces):
        start, stop = max(each.start, begin), min(each.end, end)
        if stop <= start:
            continue
        seen = max(0, stop - max(start, reached))
        hidden += stop - start - seen
        if seen:
            parts[each.part] = parts.get(each.part, 0) + seen
            libraries[each.library] = libraries.get(each.library, 0) + seen
        reached = max(reached, stop)
    total = max(0, end - begin)
    gaps = total - sum(parts.values())
    return Taken(total, {**parts, "gaps": gaps}, libraries, hidden, len(pieces))


def layer_time(pieces: Sequence[Piece], layers: int) -> float | None:
    """Seconds from one layer with experts to the next, gaps and all: the mean over the `layers` of a step. Of
    a prefill that goes through them in several chunks, those of all chunks together.

    Each has one router, whose first piece begins where those of another part, or none, came before. None of
    fewer than two layers, or where the beginnings found are no multiple of `layers`.
    """
    starts: list[int] = []
    before: str | None = None
    for each in sorted(pieces):
        if each.part == "router" and before != "router":
            starts.append(each.start)
        before = each.part
    chunks, rest = divmod(len(starts), layers) if layers > 1 else (0, 0)
    if rest or not chunks:
        return None
    runs = (starts[chunk * layers : (chunk + 1) * layers] for chunk in range(chunks))
    return sum(run[-1] - run[0] for run in runs) / (layers - 1) / NS


def innermost(ranges: Sequence[tuple[int, int, Part]], begin: int, end: int) -> list[Piece]:
    """Nested ranges of a CPU's thread as pieces that do not overlap: each moment is the innermost one's."""
    marks = sorted(
        {begin, end, *(at for start, stop, _ in ranges for at in (start, stop) if begin < at < end)}
    )
    pieces: list[Piece] = []
    open_: list[tuple[int, int, Part]] = []
    waiting = sorted(ranges, key=lambda each: (each[0], -each[1]))
    for left, right in itertools.pairwise(marks):
        while waiting and waiting[0][0] <= left:
            open_.append(waiting.pop(0))
        while open_ and open_[-1][1] <= left:
            open_.pop()
        if not open_:
            continue
        part = open_[-1][2]
        if pieces and pieces[-1].part == part and pieces[-1].end == left:
            pieces[-1] = dataclasses.replace(pieces[-1], end=right)
        else:
            pieces.append(Piece(left, right, part, "gloo" if part == "collectives" else "torch"))
    return pieces


def seconds(of: dict[Word, int]) -> dict[Word, float]:
    return {name: spent / NS for name, spent in of.items()}
