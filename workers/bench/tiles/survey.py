"""The static tile survey: from a version number to a document of findings, without a GPU."""

from __future__ import annotations

import dataclasses
import os
import resource
import time
from pathlib import Path

from workers.bench.document import Document, Finding, Progress, Target, Tier, now
from workers.bench.memory import available_bytes
from workers.bench.tiles import arches, deep, findings, generator, sources, toolchain, verdicts, versions
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import Frontend

# Shares of the whole, in percent, so that the total is known from the start.
_SOURCES, _TOOLCHAIN, _GENERATE, _COMPILE, _ALL = 0, 10, 30, 32, 100
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
) -> Document:
    """BenchError if there is nothing to say; variants that do not compile or fit are findings.

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
        units = generator.generate(cache, tree, arch, tools.version, scratch)
        frontend = Frontend(tools, tree, arch, generator.defines(tree, arch))
        with cache.lock(f"compile-{tree.digest[:32]}-{arch.name}"):
            found = verdicts.find(
                frontend,
                units,
                cache,
                scratch,
                jobs or default_jobs(),
                lambda done, message: progress.step(
                    _COMPILE + (_ALL - _COMPILE) * done // len(units), _ALL, message
                ),
            )
        evidence: list[Finding] = []
        for unit in units:
            evidence += findings.of_unit(unit, found[unit.name], arch)
        logs = {name: verdict.log for name, verdict in found.items()}
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
        evidence=tuple(evidence),
        logs={name: capped(log) for name, log in logs.items()},
        costs={
            "cpu_seconds": round(_cpu_seconds(), 3),
            "wall_seconds": round(time.monotonic() - clock, 3),
            "wheel_bytes": tree.wheel_bytes,
            "unpacked_bytes": tree.unpacked_bytes,
            "instantiations": sum(len(unit.instantiations) for unit in units),
            "units": len(units),
            "cached_units": sum(verdict.cached for verdict in found.values()),
        },
    )


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
