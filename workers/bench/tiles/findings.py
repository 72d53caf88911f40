"""Turns verdicts into the findings of a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workers.bench.document import Finding
from workers.bench.tiles import stage_arithmetic
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.instantiations import ACTIVATION_BITS, Form, Unit, Variant
from workers.bench.tiles.listing import FAMILY, Entry
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.stage_arithmetic import Prediction
from workers.bench.tiles.verdicts import UnitVerdict

#: the entry of a document's logs that lists every tactic by its id
TACTICS_LOG = "tactics"
DISPATCH_HEADER = "moe_gemm_template_dispatch_tma_ws.h"
_DETAIL_CHARACTERS = 500


def of_unit(
    unit: Unit, verdict: UnitVerdict, arch: Arch, cutlass: str, lists: Mapping[Form, Entry]
) -> list[Finding]:
    """Per instantiation: candidate, dispatched, compiled, and for what compiled whether it fits.

    `lists` is empty where the version's tactics are not known: then nothing is said of candidates.
    """
    findings = []
    for one, kernel, error in zip(unit.instantiations, verdict.kernels, verdict.errors, strict=True):
        common = about(FAMILY, one.variant, unit.name, unit.name)
        entry = lists.get(one.variant.form)
        if entry is not None:
            findings.append(_candidate(common, entry))
        findings.append(_dispatched(common, entry, arch))
        findings.append(compiled(common, kernel, error))
        if kernel is not None:
            findings.append(
                fits(common, kernel, arch, stage_arithmetic.of_kernel(kernel, cutlass=cutlass, arch=arch))
            )
    return findings


def of_missing(units: Iterable[Unit], arch: Arch, lists: Mapping[Form, Entry]) -> list[Finding]:
    """Of tactics without an instantiation, for each output type that the generator writes for the inputs."""
    outputs: dict[str, dict[str, None]] = {}
    for unit in units:
        for one in unit.instantiations:
            outputs.setdefault(one.variant.inputs, {})[one.variant.output] = None
    findings = []
    for form, entry in lists.items():
        for output in () if entry.instantiated else outputs.get(form.inputs, ()):
            common = about(FAMILY, Variant.of(form, output), None, None)
            findings += [_candidate(common, entry), _dispatched(common, entry, arch)]
    return findings


def about(family: str, variant: Variant, unit: str | None, log: str | None) -> dict[str, Any]:
    """The fields of a finding that say which variant it is about, and where its words stand."""
    return {
        "family": family,
        "inputs": variant.inputs,
        "output": variant.output,
        "tile": variant.tile,
        "cluster": variant.cluster,
        "fusion": variant.fusion,
        "swap_ab": variant.swap_ab,
        "schedule": variant.schedule,
        "unit": unit,
        "log": log,
    }


def _candidate(common: dict[str, Any], entry: Entry) -> Finding:
    base = {**common, "unit": None, "log": TACTICS_LOG, "stage": "candidate", "source": "heuristic"}
    if entry.candidate:
        ids = "; ".join(
            f"GEMM{gemm} {'tactics' if len(numbers) > 1 else 'tactic'} {', '.join(map(str, numbers))}"
            for gemm in (1, 2)
            if (numbers := [number for of, number in entry.tactics if of == gemm])
        )
        return Finding(**base, passed=True, detail=ids[:_DETAIL_CHARACTERS])
    detail = "No tactic of this version asks for it, though its generator writes it."
    return Finding(**base, passed=False, reason="no_candidate", detail=detail)


def _dispatched(common: dict[str, Any], entry: Entry | None, arch: Arch) -> Finding:
    base = {**common, "stage": "dispatched", "source": "generator"}
    if entry is None or (entry.dispatched and entry.instantiated):
        return Finding(**base, passed=True)
    m, n, k = entry.form.tile
    k_bytes = k * ACTIVATION_BITS[entry.form.inputs] // 8
    number = (
        "103" if entry.form.schedule.startswith("sm103_") else {"103": "100"}.get(arch.module, arch.module)
    )
    lacks, places = [], []
    if not entry.dispatched:
        lacks.append(f"its dispatch throws: {entry.said.rstrip('.')}")
        places.append(f"as SHAPE_CASE({number}, {m}, {n}, {k_bytes}) in {DISPATCH_HEADER}")
    if not entry.instantiated:
        lacks.append("its generator writes no such kernel")
        places.append(f"among the tiles of generate_sm{number}_grouped_gemm_operations")
    said = ", and ".join(lacks)
    detail = f"{said[0].upper()}{said[1:]}. It would have to stand {' and '.join(places)}."
    return Finding(**base, passed=False, reason="no_dispatch", detail=detail[:_DETAIL_CHARACTERS])


def compiled(common: dict[str, Any], kernel: Kernel | None, error: str | None) -> Finding:
    """What the types of an instantiation came to; `common` names the variant, its unit and log."""
    base = {**common, "stage": "compiled", "source": "compiler", "tier": "types"}
    if kernel is not None:
        return Finding(**base, passed=True, threads=kernel.threads)
    if error is not None:
        return Finding(**base, passed=False, reason="compile_error", detail=error[:_DETAIL_CHARACTERS])
    detail = "The unit compiles, but its launcher leaves this kernel out."
    return Finding(**base, passed=False, reason="not_supported", detail=detail)


def fits(
    common: dict[str, Any], kernel: Kernel, arch: Arch, predicted: Prediction | None, note: str = ""
) -> Finding:
    """Need against limit. `note` precedes what an overflow has to say.

    No prediction where CUTLASS's rule for the number of stages does not apply.
    """
    shortfall = kernel.need_bytes - arch.smem_optin_bytes
    overflows = shortfall > 0
    said = f"{shortfall:,} B more than a block of {arch.name} can have" if overflows else ""
    base = {**common, "stage": "fits", "source": "compiler", "tier": "types", "threads": kernel.threads}
    return Finding(
        **base,
        passed=not overflows,
        reason="smem_overflow" if overflows else None,
        detail="; ".join(filter(None, (note, said))) or None,
        stages=kernel.stages,
        need_bytes=kernel.need_bytes,
        limit_bytes=arch.smem_optin_bytes,
        parts=kernel.parts,
        predicted_stages=predicted.stages if predicted else None,
        predicted_bytes=predicted.need_bytes if predicted else None,
    )
