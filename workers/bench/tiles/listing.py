"""Three lists of a version that must agree: tactics offered, dispatch table, instantiations.

A tactic id is absolute in GEMM1 ++ GEMM2 and means something only within its version and architecture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from workers.bench.document import Listing
from workers.bench.tiles.candidates import Offer, Outcome
from workers.bench.tiles.instantiations import Form, Unit

FAMILY = "moe_grouped_gemm"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What the three lists say of a form. `tactics` are (gemm, id) pairs, `said` why the dispatch throws."""

    form: Form
    tactics: tuple[tuple[int, int], ...]
    dispatched: bool
    said: str
    instantiated: bool

    @property
    def candidate(self) -> bool:
        return bool(self.tactics)


def entries(offer: Offer, units: Iterable[Unit], inputs: Sequence[str]) -> dict[Form, Entry]:
    """By form: tactics in the order of their ids, then what no tactic asks for, in the generator's order."""
    instantiated = dict.fromkeys(one.variant.form for unit in units for one in unit.instantiations)
    tactics: dict[Form, list[tuple[int, int]]] = {}
    outcomes: dict[Form, Outcome] = {}
    for tactic in offer.tactics:
        if tactic.form is not None and tactic.outcome is not None and tactic.inputs in inputs:
            tactics.setdefault(tactic.form, []).append((tactic.gemm, tactic.id))
            outcomes[tactic.form] = tactic.outcome
    found = {}
    for form in (*tactics, *(form for form in instantiated if form not in tactics)):
        outcome = outcomes.get(form) or offer.answers[form]
        reached = outcome.form == form
        said = outcome.said or ("" if reached else f"it leads to {outcome.form}")
        found[form] = Entry(form, tuple(tactics.get(form, ())), reached, said, form in instantiated)
    return found


def listing(entry: Entry) -> Listing:
    return Listing(
        family=FAMILY,
        **{field.name: getattr(entry.form, field.name) for field in dataclasses.fields(Form)},
        candidate=entry.candidate,
        dispatched=entry.dispatched,
        instantiated=entry.instantiated,
        tactics=entry.tactics,
    )


def decode(listings: Iterable[Listing], inputs: str, tactic: int) -> tuple[int, Form] | None:
    """The GEMM (1 or 2) and the form that an autotuner's id means for these inputs.

    None for an id out of range, and for one of a kernel of an older architecture.
    """
    for one in listings:
        if one.inputs == inputs:
            for gemm, number in one.tactics:
                if number == tactic:
                    return gemm, _form(one)
    return None


def tactic_ids(listings: Iterable[Listing], form: Form) -> tuple[tuple[int, int], ...]:
    """(gemm, id) of every tactic that means this form, none if the version offers none."""
    return tuple(pair for one in listings if _form(one) == form for pair in one.tactics)


def log(offer: Offer, entries: Iterable[Entry], inputs: Sequence[str]) -> str:
    """Every tactic by its id, and what is instantiated without one, for people."""
    lines = []
    for family in inputs:
        if family in offer.refusals:
            lines.append(f"{family}: the heuristic throws: {offer.refusals[family]}")
        for tactic in offer.tactics:
            if tactic.inputs != family:
                continue
            what = "a kernel of an older architecture"
            if tactic.form is not None and tactic.outcome is not None:
                said = tactic.outcome.said
                what = f"{tactic.form}{f': never dispatched: {said}' if said else ''}"
            lines.append(f"{tactic.id:4} GEMM{tactic.gemm} {what}")
    lines += [f"   - no tactic: {entry.form}" for entry in entries if not entry.candidate]
    return "\n".join(lines) + "\n"


def _form(one: Listing) -> Form:
    return Form(one.inputs, one.tile, one.cluster, one.fusion, one.swap_ab, one.schedule)
