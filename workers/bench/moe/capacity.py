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
) -> list[tuple[Room, list[Decode | Prefill]]]:
    """The cases in sets, each with the room that one decoder needs for it, in their order: a case joins the
    last set while `fits` (of the room, and whether there is a prefill) allows it."""
    sets: list[tuple[Room, list[Decode | Prefill]]] = []
    for case in cases:
        alone = room(case, steps)
        if sets:
            held, inside = sets[-1]
            both = max(held[0], alone[0]), max(held[1], alone[1])
            if fits(both, any(isinstance(each, Prefill) for each in (*inside, case))):
                sets[-1] = both, [*inside, case]
                continue
        sets.append((alone, [case]))
    return sets
