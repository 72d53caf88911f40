"""Stage rescues: a release's own kernels that overflow, with one stage less.

The generated units and the launcher stay as they are. A header of ours, included first, answers the
launcher's request for the automatic stage count with a fixed one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workers.bench.document import Finding
from workers.bench.tiles import compiler, instantiations, verdicts
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.findings import about, compiled, fits
from workers.bench.tiles.instantiations import Instantiation, Unit
from workers.bench.tiles.verdicts import UnitVerdict

FAMILY = "moe_grouped_gemm_rescue"
_HEADER = Path(__file__).parent / "kernels" / "one_stage_less.hpp"


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
        common = about(FAMILY, one.variant, unit.name, log)
        found.append(compiled(common, kernel, error))
        if kernel is not None:
            found.append(fits(common, kernel, arch, None, note))
    return found
