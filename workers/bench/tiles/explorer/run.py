"""The explorer and the stage rescues: from a FlashInfer version to a document, without a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from workers.bench.document import BenchError, Document, Finding, Progress, Target, now
from workers.bench.tiles import arches, generator, sources, toolchain, verdicts, versions
from workers.bench.tiles.arches import Arch
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.compiler import Frontend
from workers.bench.tiles.explorer import bodies, findings, rescue, search, space, tree
from workers.bench.tiles.explorer.nvcc import Nvcc
from workers.bench.tiles.explorer.space import Config
from workers.bench.tiles.sources import Sources
from workers.bench.tiles.survey import capped, default_jobs
from workers.bench.tiles.toolchain import Toolchain

#: whose builders the kernels' text names
# Shares of the whole, in percent, so that the total is known from the start.
_READY, _TYPES, _ALL = 10, 80, 100


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """All that both kinds of search stand on."""

    cache: Cache
    scratch: Path
    arch: Arch
    tree: Sources
    tools: Toolchain
    jobs: int
    progress: Progress

    def say(self, share: int, message: str) -> None:
        self.progress.step(share, _ALL, message)


def explore(
    bench: Bench, *, limit: int | None, whole: Sequence[str], most_promising: int, command: tuple[str, ...]
) -> Document:
    """Of our own kernels for the CUTLASS that the release bundles, the first `limit`.

    At tier full: those named in `whole`, and as many as asked for of the most promising, which fit and
    whose tile the release's fused MoE does not ship.
    """
    started, clock = now(), time.monotonic()
    named = [_named(name) for name in whole]
    compile_with = Nvcc(bench.tools, bench.tree, bench.arch, tree.digest(bench.tree))

    with bench.cache.lock(f"explore-{compile_with.tree_digest[:32]}-{bench.arch.name}"):
        found = _types(bench, compile_with, limit)
        deeper = {}
        chosen = [*named, *_promising(bench, found, most_promising)]
        if chosen:
            deeper = bodies.find(
                compile_with,
                list(dict.fromkeys(chosen)),
                bench.cache,
                bench.scratch,
                lambda _, message: bench.say(_TYPES, message),
            )
    evidence = [
        finding
        for config, verdict in found.items()
        for finding in findings.of_config(config, verdict, bench.arch, bench.tree.cutlass)
    ]
    evidence += [findings.of_body(config, body) for config, body in deeper.items()]
    lines = [f"{config.name} // {v.kernel.line}" for config, v in found.items() if v.kernel]
    logs = {findings.KERNELS_LOG: "\n".join([f"$ {compile_with.shown_command(full=False)}", *lines]) + "\n"}
    logs |= {config.name: v.log or v.error or "" for config, v in found.items() if v.kernel is None}
    logs |= {findings.body_log(config): body.log for config, body in deeper.items()}
    bench.say(_ALL, f"explored {len(found)} configurations")
    costs = {
        "instantiations": len(found),
        "cached_units": sum(verdict.cached for verdict in found.values()),
        "full_compiles": len(deeper),
    }
    stack = _stack(bench)
    if label := bench.tree.version.partition("+")[2]:
        # a patched wheel's CUTLASS is not the release whose number it bears
        stack["cutlass"] += f"+{label}"
    return _document(bench, started, clock, command, stack, evidence, logs, costs)


def _types(bench: Bench, compile_with: Nvcc, limit: int | None) -> dict[Config, search.Verdict]:
    """Verdicts of the scouts, then of the other modes of those tiles whose scout compiles.

    Kernels that fail for one template cost a compilation each, since it is reported once a compilation; with
    the scouts alone these are few.
    """
    configs = space.configurations()
    scouts = [config for config in configs if config == config.scout][:limit]

    def find(wanted: Sequence[Config], before: int) -> dict[Config, search.Verdict]:
        def progress(done: int, message: str) -> None:
            share = _READY + (_TYPES - _READY) * (before + done) // len(configs)
            bench.say(share, f"{message} of this round")

        return search.find(compile_with, wanted, bench.cache, bench.scratch, bench.jobs, progress)

    found = find(scouts, 0)
    compiling = {config for config, verdict in found.items() if verdict.kernel is not None}
    rest = [config for config in configs if config != config.scout and config.scout in compiling]
    return found | find(rest[: None if limit is None else limit - len(scouts)], len(scouts))


def rescue_overflows(bench: Bench, *, command: tuple[str, ...]) -> Document:
    """Of the release's own kernels that overflow, each with one stage less. BenchError if none does."""
    started, clock = now(), time.monotonic()
    units = generator.generate(bench.cache, bench.tree, bench.arch, bench.tools.version, bench.scratch).units
    frontend = Frontend(bench.tools, bench.tree, bench.arch, generator.defines(bench.tree, bench.arch))

    def progress(done: int, message: str) -> None:
        bench.say(_READY + (_TYPES - _READY) * done // len(units), message)

    with bench.cache.lock(f"compile-{bench.tree.digest[:32]}-{bench.arch.name}"):
        found = verdicts.find(frontend, units, bench.cache, bench.scratch, bench.jobs, progress)
        evidence, logs = rescue.find(
            frontend,
            units,
            found,
            bench.cache,
            bench.scratch,
            bench.jobs,
            lambda _, message: bench.say(_TYPES, f"one stage less: {message}"),
        )
    if not evidence:
        raise BenchError(
            "nothing_to_rescue",
            f"No kernel of flashinfer {bench.tree.version} overflows on {bench.arch.name}.",
        )
    bench.say(_ALL, f"tried {sum(one.stage == 'compiled' for one in evidence)} kernels with one stage less")
    stack = {"flashinfer": bench.tree.version, **_stack(bench)}
    return _document(bench, started, clock, command, stack, evidence, logs, {})


@contextlib.contextmanager
def prepared(
    *,
    flashinfer: str,
    arch_name: str,
    cache_folder: Path,
    wheel: Path | None,
    jobs: int | None,
    progress: Progress,
) -> Iterator[Bench]:
    version, arch = versions.normalise(flashinfer), arches.find(arch_name)
    if arch.name not in space.ARCHES:
        raise BenchError(
            "unknown_arch",
            f"The explorer builds kernels for {' and '.join(space.ARCHES)} only, not {arch.name}.",
        )
    cache = Cache(cache_folder)
    with cache.scratch() as scratch:
        cache.need_free(WORK_BYTES, "the explorer")
        progress.step(0, _ALL, f"looking for flashinfer {version}")
        obtained = sources.obtain(
            cache,
            version,
            wheel,
            scratch,
            lambda: progress.step(0, _ALL, f"downloading flashinfer {version}"),
        )
        tools = toolchain.obtain(
            cache, arch, scratch, os.environ, lambda: progress.step(0, _ALL, "downloading nvcc")
        )
        yield Bench(cache, scratch, arch, obtained, tools, jobs or default_jobs(), progress)


def _named(name: str) -> Config:
    known = {config.name: config for config in space.configurations()}
    if name not in known:
        raise BenchError(
            "unknown_configuration",
            f"There is no configuration {name[:80]!r}; one would be {next(iter(known))}.",
        )
    return known[name]


def _promising(bench: Bench, found: dict[Config, search.Verdict], count: int) -> list[Config]:
    if not count:
        return []
    units = generator.generate(bench.cache, bench.tree, bench.arch, bench.tools.version, bench.scratch).units
    shipped = {(one.variant.inputs, one.variant.tile) for unit in units for one in unit.instantiations}
    return bodies.promising(found, shipped, bench.arch.smem_optin_bytes)[:count]


def _stack(bench: Bench) -> dict[str, str]:
    return {
        "cutlass": bench.tree.cutlass,
        "nvcc": bench.tools.version,
        "gcc": bench.tools.gxx_version,
    }


def _document(
    bench: Bench,
    started: str,
    clock: float,
    command: tuple[str, ...],
    stack: dict[str, str],
    evidence: Sequence[Finding],
    logs: dict[str, str],
    costs: Mapping[str, int],
) -> Document:
    return Document(
        kind="tiles",
        command=command,
        started_at=started,
        finished_at=now(),
        target=Target(
            kind="arch", arch=bench.arch.name, properties={"smem_optin_bytes": bench.arch.smem_optin_bytes}
        ),
        stack=stack,
        evidence=tuple(evidence),
        logs={name: capped(log) for name, log in logs.items()},
        costs={
            "cpu_seconds": round(_cpu_seconds(), 3),
            "wall_seconds": round(time.monotonic() - clock, 3),
            **costs,
        },
    )


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
