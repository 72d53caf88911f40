"""Turns the tactics, units and verdicts of mm_fp4 into the findings and listings of a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.bench.document import Finding, Listing
from workers.bench.tiles import stage_arithmetic
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.findings import about, compiled, fits
from workers.bench.tiles.instantiations import Form, Unit, Variant
from workers.bench.tiles.mm_fp4.tactics import Offer, Tactic
from workers.bench.tiles.mm_fp4.units import Rendered
from workers.bench.tiles.verdicts import UnitVerdict

FAMILY = "mm_fp4"
#: the entry of a document's logs that lists every tactic by its id
TACTICS_LOG = "mm_fp4 tactics"
_DETAIL_CHARACTERS = 500


def listings(offer: Offer, units: Iterable[Unit]) -> tuple[Listing, ...]:
    """Forms in the order of their first tactic, then what no tactic asks for, in the units' order."""
    instantiated = dict.fromkeys(one.variant.form for unit in units for one in unit.instantiations)
    tactics = by_form(offer)
    return tuple(
        Listing(
            family=FAMILY,
            inputs=form.inputs,
            tile=form.tile,
            cluster=form.cluster,
            fusion=form.fusion,
            swap_ab=form.swap_ab,
            schedule=form.schedule,
            candidate=form in tactics,
            dispatched=form in offer.reached,
            instantiated=form in instantiated,
            tactics=tuple((1, tactic.id) for tactic in tactics.get(form, ())),
        )
        for form in dict.fromkeys((*tactics, *instantiated))
    )


def by_form(offer: Offer) -> dict[Form, list[Tactic]]:
    found: dict[Form, list[Tactic]] = {}
    for tactic in offer.tactics:
        for form in tactic.forms:
            found.setdefault(form, []).append(tactic)
    return found


def evidence(
    offer: Offer, rendered: Rendered, verdicts: Mapping[str, UnitVerdict], arch: Arch, cutlass: str
) -> list[Finding]:
    """Per instantiation: candidate, dispatched, compiled, and for what compiled whether it fits; then the
    candidates that nothing instantiates."""
    tactics = by_form(offer)
    found = []
    instantiated, outputs = set(), {}  # type: set[Form], dict[str, None]
    for unit in rendered.units:
        verdict = verdicts[unit.name]
        for one, kernel, error in zip(unit.instantiations, verdict.kernels, verdict.errors, strict=True):
            form = one.variant.form
            instantiated.add(form)
            outputs[one.variant.output] = None
            common = about(FAMILY, one.variant, unit.name, unit.name)
            found.append(_candidate(common, tactics.get(form, [])))
            found.append(_dispatched(common, form in offer.reached, [], instantiated=True))
            found.append(compiled(common, kernel, error))
            if kernel is not None:
                predicted = (
                    stage_arithmetic.of_kernel(kernel, cutlass=cutlass, arch=arch, grouped=False)
                    if rendered.counts_stages
                    else None
                )
                found.append(fits(common, kernel, arch, predicted))
    for form, entries in tactics.items():
        for output in () if form in instantiated else outputs:
            common = about(FAMILY, Variant.of(form, output), None, TACTICS_LOG)
            found.append(_candidate(common, entries))
            found.append(_dispatched(common, form in offer.reached, entries, instantiated=False))
    return found


def log(offer: Offer, listed: Iterable[Listing]) -> str:
    """Every tactic by its id, and what is instantiated without one, for people."""
    lines = [
        f"{tactic.id:4} {tactic.name}: {' or '.join(map(str, tactic.forms))}"
        f"{f', never dispatched: {tactic.refused}' if tactic.refused else ''}"
        for tactic in offer.tactics
    ]
    for one in listed:
        if not one.candidate:
            form = Form(one.inputs, one.tile, one.cluster, one.fusion, one.swap_ab, one.schedule)
            lines.append(f"   - no tactic: {form}")
    return "\n".join(lines) + "\n"


def _candidate(common: dict[str, Any], tactics: Sequence[Tactic]) -> Finding:
    base = {**common, "unit": None, "log": TACTICS_LOG, "stage": "candidate", "source": "heuristic"}
    if tactics:
        detail = "; ".join(f"tactic {tactic.id}, which the list calls {tactic.name}" for tactic in tactics)
        return Finding(**base, passed=True, detail=detail[:_DETAIL_CHARACTERS])
    detail = "No tactic of this version asks for it, though its module compiles it."
    return Finding(**base, passed=False, reason="no_candidate", detail=detail)


def _dispatched(
    common: dict[str, Any], reached: bool, tactics: Sequence[Tactic], *, instantiated: bool
) -> Finding:
    base = {**common, "stage": "dispatched", "source": "generator"}
    if reached and instantiated:
        return Finding(**base, passed=True)
    refusals = [tactic.refused for tactic in tactics if tactic.refused]
    lacks = []
    if not reached:
        lacks.append(f"the switch throws: {refusals[0]}" if refusals else "the switch never leads to it")
    if not instantiated:
        lacks.append("no unit of the module instantiates it")
    said = " and ".join(lacks)
    detail = f"{said[0].upper()}{said[1:]}."
    return Finding(**base, passed=False, reason="no_dispatch", detail=detail[:_DETAIL_CHARACTERS])
