"""What the compiler says of every configuration, with many of them in a unit.

Errors name the configuration that they arose from. Those are recorded and taken out, and the rest is
compiled again until it passes: of configurations that share a failing template only the first is reported at
a time. Where the compiler dies without naming any, the unit is halved until one stands alone.
"""

from __future__ import annotations

import collections
import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError
from workers.bench.tiles import compiler
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.children import Child, Ended
from workers.bench.tiles.explorer import nvcc
from workers.bench.tiles.explorer.nvcc import Nvcc
from workers.bench.tiles.explorer.space import Config
from workers.bench.tiles.probe_lines import Kernel
from workers.bench.tiles.verdicts import DISK_FULL

# One cicc takes 2.1 GB for 64.
UNIT_CONFIGS = 64
KIND = "explored"
_POLL_SECONDS = 0.05
_LOG_CHARACTERS = 4000

Running = tuple[Child, list[Config], Path]


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Either the kernel or the error; `log` is what the compiler said of the error."""

    kernel: Kernel | None = None
    error: str | None = None
    log: str | None = None
    cached: bool = False


def find(
    compile_with: Nvcc,
    configs: Sequence[Config],
    cache: Cache,
    scratch: Path,
    jobs: int,
    progress: Callable[[int, str], None],
) -> dict[Config, Verdict]:
    """`progress` gets the number of configurations with a verdict, and a message."""
    places = {config: cache.place(KIND, compile_with.key(config, full=False)) for config in configs}
    known = {config: verdict for config, place in places.items() if (verdict := _load(cache, place))}

    def done(config: Config, verdict: Verdict, keep: bool) -> None:
        known[config] = verdict
        if keep:
            kernel = verdict.kernel and dataclasses.asdict(verdict.kernel)
            stored = {"kernel": kernel, "error": verdict.error, "log": verdict.log}
            cache.write_json(places[config], stored)

    pending = [config for config in configs if config not in known]
    if pending:
        search = _Search(compile_with, cache, scratch, done)
        search.run(pending, jobs, lambda: progress(len(known), f"compiled {len(known)} of {len(configs)}"))
    return {config: known[config] for config in configs}


class _Search:
    def __init__(
        self, with_: Nvcc, cache: Cache, scratch: Path, done: Callable[[Config, Verdict, bool], None]
    ) -> None:
        self._with = with_
        self._cache = cache
        self._scratch = scratch
        self._done = done
        self._queue: collections.deque[list[Config]] = collections.deque()

    def run(self, configs: Sequence[Config], jobs: int, tell: Callable[[], None]) -> None:
        self._queue.extend(
            list(configs[start : start + UNIT_CONFIGS]) for start in range(0, len(configs), UNIT_CONFIGS)
        )
        running: list[Running] = []
        try:
            while self._queue or running:
                while self._queue and len(running) < jobs:
                    unit = self._queue.popleft()
                    folder = Path(tempfile.mkdtemp(prefix="nvcc-", dir=self._scratch))
                    running.append((self._with.start(unit, folder), unit, folder))
                time.sleep(_POLL_SECONDS)
                for entry in list(running):
                    child, unit, folder = entry
                    ended = child.poll()
                    if ended is not None:
                        running.remove(entry)
                        self._take(ended, unit, folder)
                        tell()
        finally:
            for child, _, _ in running:
                child.kill()

    def _take(self, ended: Ended, unit: list[Config], folder: Path) -> None:
        if any(sign in ended.stderr for sign in DISK_FULL):
            raise BenchError("disk_full", f"The disk became full while nvcc compiled in {folder.parent}.")
        if ended.returncode == 0:
            self._passed(unit, folder)
            return
        self._cache.need_free(WORK_BYTES, "nvcc")
        found = nvcc.errors(ended.stderr, {config.name for config in unit})
        for config in unit:
            if config.name in found:
                self._failed(config, found[config.name])
        rest = [config for config in unit if config.name not in found]
        if found:
            self._queue.extend([rest] if rest else [])
        elif len(unit) > 1:
            middle = len(unit) // 2
            self._queue.extend((unit[:middle], unit[middle:]))
        else:
            # It may be the machine's fault, so the next search tries again.
            complaint = compiler.first_complaint(ended)
            said = self._with.shown(ended.stderr or complaint)
            self._done(unit[0], Verdict(error=self._with.shown(complaint), log=said[:_LOG_CHARACTERS]), False)

    def _passed(self, unit: list[Config], folder: Path) -> None:
        kernels = nvcc.kernels(folder)
        for config in unit:
            kernel = kernels.get(config.name)
            if kernel is None:
                raise BenchError("bad_unit", f"{config.name} was compiled, but its PTX says nothing of it.")
            self._done(config, Verdict(kernel), True)

    def _failed(self, config: Config, diagnostics: Sequence[compiler.Diagnostic]) -> None:
        log = self._with.shown(nvcc.telling(diagnostics).text)
        self._done(config, Verdict(error=nvcc.reason(diagnostics), log=log[:_LOG_CHARACTERS]), True)


def _load(cache: Cache, place: Path) -> Verdict | None:
    stored: Any = cache.read_json(place)
    try:
        kernel = stored["kernel"] and Kernel.from_json(stored["kernel"])
        verdict = Verdict(kernel, stored["error"], stored["log"], cached=True)
    except (TypeError, KeyError, ValueError):
        return None
    return verdict if (verdict.kernel is None) != (verdict.error is None) else None
