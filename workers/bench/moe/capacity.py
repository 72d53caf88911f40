"""How much one decoder must hold for several cases, and which cases may share one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.bench.cases.model import Decode, Prefill

#: tokens that a cache has room for behind the timed steps: the host's time and the checks take some
MARGIN = 64
#: steps before the window: as many as the context allows, so that the window begins at it
LEAD = 200

Room = tuple[int, int]


def lead(case: Decode | Prefill) -> int:
    """Steps that fill the cache up to the case's context; none of a prefill."""
    return min(LEAD, case.context - 1) if isinstance(case, Decode) else 0


def room(case: Decode | Prefill, steps: int) -> Room:
    """Sequences of all GPUs, and tokens of each, that a case of `steps` timed steps comes to."""
    return case.batch, case.context + (steps if isinstance(case, Decode) else 0) + MARGIN


def together(
    cases: Sequence[Decode | Prefill], steps: int, fits: Callable[[Room, bool], bool]
) -> tuple[Room, list[Decode | Prefill]]:
    """The first of the cases that one decoder takes, one at least, and the room that it needs for them: the
    next one joins while `fits` (of the room, and whether there is a prefill) allows it."""
    held, inside = room(cases[0], steps), [cases[0]]
    for case in cases[1:]:
        alone = room(case, steps)
        both = max(held[0], alone[0]), max(held[1], alone[1])
        if not fits(both, any(isinstance(each, Prefill) for each in (*inside, case))):
            break
        held, inside = both, [*inside, case]
    return held, inside
