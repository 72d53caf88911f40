"""Turns verdicts into the findings of a document."""

from __future__ import annotations

from typing import Any

from workers.bench.document import Finding
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.instantiations import Unit, Variant
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.verdicts import UnitVerdict

FAMILY = "moe_grouped_gemm"
_DETAIL_CHARACTERS = 500


def of_unit(unit: Unit, verdict: UnitVerdict, arch: Arch) -> list[Finding]:
    """Per instantiation: dispatched, compiled, and for what compiled whether it fits."""
    findings = []
    for one, kernel, error in zip(unit.instantiations, verdict.kernels, verdict.errors, strict=True):
        common = _common(one.variant, unit.name)
        findings.append(Finding(**common, stage="dispatched", passed=True, source="generator"))
        findings.append(_compiled(common, kernel, error))
        if kernel is not None:
            findings.append(_fits(common, kernel, arch))
    return findings


def _common(variant: Variant, unit: str) -> dict[str, Any]:
    return {
        "family": FAMILY,
        "inputs": variant.inputs,
        "output": variant.output,
        "tile": variant.tile,
        "cluster": variant.cluster,
        "fusion": variant.fusion,
        "swap_ab": variant.swap_ab,
        "schedule": variant.schedule,
        "unit": unit,
        "log": unit,
    }


def _compiled(common: dict[str, Any], kernel: Kernel | None, error: str | None) -> Finding:
    base = {**common, "stage": "compiled", "source": "compiler", "tier": "types"}
    if kernel is not None:
        return Finding(**base, passed=True, threads=kernel.threads)
    if error is not None:
        return Finding(**base, passed=False, reason="compile_error", detail=error[:_DETAIL_CHARACTERS])
    detail = "The unit compiles, but its launcher leaves this kernel out."
    return Finding(**base, passed=False, reason="not_supported", detail=detail)


def _fits(common: dict[str, Any], kernel: Kernel, arch: Arch) -> Finding:
    shortfall = kernel.need_bytes - arch.smem_optin_bytes
    fits = shortfall <= 0
    return Finding(
        **common,
        stage="fits",
        passed=fits,
        source="compiler",
        tier="types",
        reason=None if fits else "smem_overflow",
        detail=None if fits else f"{shortfall:,} B more than a block of {arch.name} can have",
        stages=kernel.stages,
        need_bytes=kernel.need_bytes,
        limit_bytes=arch.smem_optin_bytes,
        parts=kernel.parts,
        threads=kernel.threads,
    )
