"""Stage rescues: a release's own kernels that overflow, with one stage less.

The generated units and the launcher stay as they are. A header of ours, included first, answers the
launcher's request for the automatic stage count with a fixed one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.bench.document import Finding, Reason
from workers.bench.tiles import compiler, instantiations, verdicts
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.explorer import findings
from workers.bench.tiles.instantiations import Instantiation, Unit
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.verdicts import UnitVerdict

FAMILY = "moe_grouped_gemm_rescue"
_HEADER = Path(__file__).parent / "kernels" / "one_stage_less.hpp"
_DETAIL_CHARACTERS = 500


def overflowing(
    units: Sequence[Unit], found: Mapping[str, UnitVerdict], limit_bytes: int
) -> dict[int, list[Unit]]:
    """By the stages CUTLASS chose: the units with nothing but what needs more than `limit_bytes`."""
    by_stages: dict[int, list[Unit]] = {}
    for unit in units:
        wanted: dict[int, list[Instantiation]] = {}
        for one, kernel in zip(unit.instantiations, found[unit.name].kernels, strict=True):
            if kernel is not None and kernel.need_bytes > limit_bytes:
                wanted.setdefault(kernel.stages, []).append(one)
        for stages, kept in wanted.items():
            text = instantiations.without(unit.text, [one for one in unit.instantiations if one not in kept])
            by_stages.setdefault(stages, []).append(Unit(unit.name, text, tuple(kept)))
    return by_stages


def with_stages(frontend: Frontend, stages: int) -> Frontend:
    """The survey's front end with our header before everything else."""
    # the header's own text is not otherwise part of what the survey files a verdict under
    digest = compiler.digest(_HEADER.read_text(encoding="utf-8"))[:16]
    options = (f"-DTILEWATCH_STAGES={stages}", f"-DTILEWATCH_HEADER={digest}", "-include", str(_HEADER))
    return dataclasses.replace(frontend, defines=(*frontend.defines, *options))


def find(
    frontend: Frontend,
    units: Sequence[Unit],
    found: Mapping[str, UnitVerdict],
    cache: Cache,
    scratch: Path,
    jobs: int,
    progress: Callable[[int, str], None],
) -> tuple[list[Finding], dict[str, str]]:
    """Findings about every overflowing kernel with one stage less, and the logs they refer to."""
    evidence: list[Finding] = []
    logs: dict[str, str] = {}
    for stages, lacking in overflowing(units, found, frontend.arch.smem_optin_bytes).items():
        fewer = with_stages(frontend, stages - 1)
        for name, verdict in verdicts.find(fewer, lacking, cache, scratch, jobs, progress).items():
            log = f"{name}, {stages - 1} stages"
            logs[log] = verdict.log
            unit = next(unit for unit in lacking if unit.name == name)
            evidence += _of_unit(unit, verdict, stages, frontend.arch, log)
    return evidence, logs


def _of_unit(unit: Unit, verdict: UnitVerdict, stages: int, arch: Arch, log: str) -> list[Finding]:
    found = []
    note = f"{stages - 1} stages instead of the {stages} that CUTLASS chooses"
    for one, kernel, error in zip(unit.instantiations, verdict.kernels, verdict.errors, strict=True):
        common = _common(one, unit.name, log)
        if kernel is None:
            detail = (error or "The launcher leaves this kernel out.")[:_DETAIL_CHARACTERS]
            reason: Reason = "compile_error" if error else "not_supported"
            found.append(Finding(**common, stage="compiled", passed=False, reason=reason, detail=detail))
        else:
            found += _of_kernel(common, kernel, arch, note)
    return found


def _of_kernel(common: dict[str, Any], kernel: Kernel, arch: Arch, note: str) -> list[Finding]:
    compiled = Finding(**common, stage="compiled", passed=True, threads=kernel.threads)
    return [compiled, findings.fits(common, kernel, None, arch, note)]


def _common(one: Instantiation, unit: str, log: str) -> dict[str, Any]:
    variant = one.variant
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
        "source": "compiler",
        "tier": "types",
        "log": log,
    }
