"""The static tile survey: from a version number to a document of findings, without a GPU."""

from __future__ import annotations

import dataclasses
import os
import resource
import time
from pathlib import Path

from workers.bench.document import BenchError, Document, Finding, Progress, Target, Tier, now
from workers.bench.memory import available_bytes
from workers.bench.tiles import (
    arches,
    candidates,
    deep,
    findings,
    generator,
    instantiations,
    listing,
    sources,
    toolchain,
    verdicts,
    versions,
)
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.mm_fp4 import survey as mm_fp4

# Shares of the whole, in percent, so that the total is known from the start.
_SOURCES, _TOOLCHAIN, _GENERATE, _TACTICS, _COMPILE, _DENSE, _ALL = 0, 10, 28, 30, 36, 75, 100
_LOG_BYTES = 256 * 1024
_JOB_BYTES = 4 * 1024**3


def run(
    *,
    flashinfer: str,
    arch_name: str,
    cache_folder: Path,
    wheel: Path | None,
    jobs: int | None,
    progress: Progress,
    command: tuple[str, ...],
    tiers: tuple[Tier, ...] = ("types",),
    limit: int | None = None,
    inputs: tuple[str, ...] | None = None,
) -> Document:
    """BenchError if there is nothing to say; variants that do not compile or fit are findings.

    `inputs` are the input types surveyed, by default those of `default_inputs`.

    Beyond `types`, which always comes first, each tier compiles what fits with its real body, `limit` kernels
    at most.
    """
    started, clock = now(), time.monotonic()
    version, arch = versions.normalise(flashinfer), arches.find(arch_name)
    cache = Cache(cache_folder)
    with cache.scratch() as scratch:
        cache.need_free(WORK_BYTES, "a survey")
        progress.step(_SOURCES, _ALL, f"looking for flashinfer {version}")
        tree = sources.obtain(
            cache,
            version,
            wheel,
            scratch,
            lambda: progress.step(_SOURCES, _ALL, f"downloading flashinfer {version}"),
        )
        progress.step(_TOOLCHAIN, _ALL, "looking for nvcc")
        tools = toolchain.obtain(
            cache, arch, scratch, os.environ, lambda: progress.step(_TOOLCHAIN, _ALL, "downloading nvcc")
        )
        progress.step(_GENERATE, _ALL, f"running the generator of flashinfer {version}")
        inputs = inputs or default_inputs(arch)
        generated = generator.generate(cache, tree, arch, tools.version, scratch, inputs)
        units = generated.units
        frontend = Frontend(tools, tree, arch, generator.defines(tree, arch))
        progress.step(_TACTICS, _ALL, f"asking flashinfer {version} for its tactics")
        try:
            asked = {one.variant.form for unit in units for one in unit.instantiations}
            offer = candidates.read(cache, tree, arch, tools, frontend.defines, asked, scratch)
            lists = listing.entries(offer, units, inputs)
            tactics = listing.log(offer, lists.values(), inputs)
        except BenchError as error:
            if error.code not in candidates.NOT_UNDERSTOOD:
                raise
            # what the compiler finds stands on its own
            progress.step(_TACTICS, _ALL, f"its tactics stay unknown: {error.sentence}")
            lists, tactics = {}, f"The tactics of this version are not known. {error.sentence}\n"
        with cache.lock(f"compile-{tree.digest[:32]}-{arch.name}"):
            found = verdicts.find(
                frontend,
                units,
                cache,
                scratch,
                jobs or default_jobs(),
                lambda done, message: progress.step(
                    _COMPILE + (_DENSE - _COMPILE) * done // len(units), _ALL, message
                ),
            )
            dense, before = mm_fp4.Part(), _cpu_seconds()
            if "nvfp4xnvfp4" in inputs:
                dense = mm_fp4.run(
                    cache,
                    tree,
                    arch,
                    tools,
                    scratch,
                    jobs or default_jobs(),
                    lambda _, message: progress.step(_DENSE, _ALL, f"mm_fp4: {message}"),
                )
            dense_seconds = _cpu_seconds() - before
        evidence: list[Finding] = []
        for unit in units:
            evidence += findings.of_unit(unit, found[unit.name], arch, tree.cutlass, lists)
        evidence += findings.of_missing(units, arch, lists)
        logs = {name: verdict.log for name, verdict in found.items()} | {findings.TACTICS_LOG: tactics}
        logs |= dense.logs
        progress.step(_ALL, _ALL, f"surveyed {len(units)} files")
        types = tuple(evidence)
        for tier in tiers:
            if tier != "types":
                deeper, more = deep.survey(
                    dataclasses.replace(frontend, tier=tier),
                    units,
                    types,
                    cache,
                    scratch,
                    jobs=jobs,
                    limit=limit,
                    say=progress.step,
                )
                evidence += deeper
                logs |= more
    return Document(
        kind="tiles",
        command=command,
        started_at=started,
        finished_at=now(),
        target=Target(kind="arch", arch=arch.name, properties={"smem_optin_bytes": arch.smem_optin_bytes}),
        stack={
            "flashinfer": version,
            "cutlass": tree.cutlass,
            "nvcc": tools.version,
            "gcc": tools.gxx_version,
        },
        evidence=(*evidence, *dense.evidence),
        listings=(*map(listing.listing, lists.values()), *dense.listings),
        logs={name: capped(log) for name, log in logs.items()},
        costs={
            "cpu_seconds": round(_cpu_seconds(), 3),
            "mm_fp4_cpu_seconds": round(dense_seconds, 3),
            "wall_seconds": round(time.monotonic() - clock, 3),
            "wheel_bytes": tree.wheel_bytes,
            "wheel_unpacked_bytes": tree.wheel_unpacked_bytes,
            "unpacked_bytes": tree.unpacked_bytes,
            "generated_instantiations": generated.all_instantiations,
            "generated_units": generated.all_units,
            "instantiations": sum(len(unit.instantiations) for unit in units),
            "units": len(units),
            "cached_units": sum(verdict.cached for verdict in found.values()),
            **dense.costs,
        },
    )


def default_inputs(arch: Arch) -> tuple[str, ...]:
    """All that FlashInfer generates for SM120; elsewhere, where that is hundreds of kernels, those of FP4, or
    of FP8 where an architecture has no FP4."""
    if arch.module == "120":
        return instantiations.INPUTS
    return ("fp8xfp8",) if arch.module == "90" else ("nvfp4xnvfp4", "mxfp8xmxfp4")


def default_jobs() -> int:
    """As many compilers as cores and free memory bear, two at most."""
    available = available_bytes() or _JOB_BYTES
    return max(1, min(2, len(os.sched_getaffinity(0)), available // _JOB_BYTES))


def capped(log: str) -> str:
    """The log, or its beginning with a last line that says how much was cut."""
    data = log.encode()
    if len(data) <= _LOG_BYTES:
        return log
    note = f"\n[cut: the first {_LOG_BYTES:,} of {len(data):,} bytes]\n"
    return data[: _LOG_BYTES - len(note.encode())].decode(errors="ignore") + note


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
