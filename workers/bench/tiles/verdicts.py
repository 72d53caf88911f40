"""What the compiler says of every instantiation, found with as few compilations as possible.

Units are compiled together. Where the front end names failing instantiations, they are recorded and
blanked out, and the rest is compiled again, until it passes: of instantiations that share a failing
template only the first is reported at a time. Where the compiler dies without naming any, the batch is
halved until the unit it dies of stands alone.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError
from workers.bench.tiles import compiler, content, probe_lines
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.children import Child, Ended
from workers.bench.tiles.compiler import Frontend, Part
from workers.bench.tiles.instantiations import Instantiation, Unit, Variant
from workers.bench.tiles.probe_lines import Kernel

# 48 kernels take 3.6 GB in one run of cicc, 88 take 4.3 GB.
_BATCH_KERNELS = 48
_POLL_SECONDS = 0.05
DISK_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


@dataclasses.dataclass(slots=True)
class UnitVerdict:
    """Per instantiation of the unit, in its order: the kernel, or why there is none, or neither.

    Neither means that the unit compiles but its macro left no kernel behind.
    """

    kernels: list[Kernel | None]
    errors: list[str | None]
    log: str
    cached: bool = False


@dataclasses.dataclass(slots=True)
class _Open:
    """A unit whose verdict is being found."""

    unit: Unit
    errors: dict[Instantiation, str] = dataclasses.field(default_factory=dict)
    kernels: dict[Instantiation, Kernel] = dataclasses.field(default_factory=dict)
    log: list[str] = dataclasses.field(default_factory=list)
    crashed: bool = False

    def close(self) -> UnitVerdict:
        instantiations = self.unit.instantiations
        return UnitVerdict(
            [self.kernels.get(one) for one in instantiations],
            [self.errors.get(one) for one in instantiations],
            "\n".join(self.log) + "\n",
        )


def find(
    frontend: Frontend,
    units: Sequence[Unit],
    cache: Cache,
    scratch: Path,
    jobs: int,
    progress: Callable[[int, str], None],
) -> dict[str, UnitVerdict]:
    """Verdicts by unit name. `progress` gets the number of finished units and a message."""
    verdicts: dict[str, UnitVerdict] = {}
    contents = content.of(frontend, units, cache, scratch)
    places = {unit.name: cache.place("verdicts", contents[unit.name].unit_key(unit)) for unit in units}
    release = frontend.sources.version
    for unit in units:
        stored = _load(cache, places[unit.name], len(unit.instantiations), release)
        if stored is not None:
            verdicts[unit.name] = stored
    pending = [unit for unit in units if unit.name not in verdicts]

    def done(unit: Unit, verdict: UnitVerdict, keep: bool) -> None:
        verdicts[unit.name] = verdict
        if keep:
            kernels = [kernel and dataclasses.asdict(kernel) for kernel in verdict.kernels]
            stored = {
                "release": release,
                "kernels": kernels,
                "errors": verdict.errors,
                "log": verdict.log,
            }
            cache.write_json(places[unit.name], stored)
        progress(len(verdicts), f"compiled {len(verdicts)} of {len(units)} files")

    if pending:
        kernels = sum(len(unit.instantiations) for unit in pending)
        progress(len(verdicts), f"compiling {kernels} kernels, the longest step; files to go: {len(pending)}")
        _Search(frontend, cache, scratch, done).run(batches(pending), jobs)
    return verdicts


def batches(units: Sequence[Unit]) -> list[list[Part]]:
    """Neighbouring units together, evenly by kernels, and no more batches than memory asks for.

    A batch costs about 7 s for the headers, and kernels share most templates: in CPU time two halves cost
    half as much again as the whole.
    """
    total = sum(len(unit.instantiations) for unit in units)
    count = -(-total // _BATCH_KERNELS)
    planned: list[list[Part]] = [[]]
    before = 0
    for unit in units:
        if planned[-1] and before * count >= total * len(planned):
            planned.append([])
        planned[-1].append(Part(unit))
        before += len(unit.instantiations)
    return planned


class _Search:
    def __init__(
        self,
        frontend: Frontend,
        cache: Cache,
        scratch: Path,
        done: Callable[[Unit, UnitVerdict, bool], None],
    ) -> None:
        self._frontend = frontend
        self._cache = cache
        self._scratch = scratch
        self._done = done
        self._open: dict[str, _Open] = {}
        self._queue: collections.deque[list[Part]] = collections.deque()

    def run(self, planned: Sequence[list[Part]], jobs: int) -> None:
        self._queue.extend(planned)
        self._open = {part.unit.name: _Open(part.unit) for part in itertools.chain(*planned)}
        running: list[tuple[Child, list[Part], Path]] = []
        try:
            while self._queue or running:
                while self._queue and len(running) < jobs:
                    parts = self._queue.popleft()
                    folder = Path(tempfile.mkdtemp(prefix="nvcc-", dir=self._scratch))
                    running.append((self._frontend.start(parts, folder), parts, folder))
                time.sleep(_POLL_SECONDS)
                for entry in list(running):
                    child, parts, folder = entry
                    ended = child.poll()
                    if ended is not None:
                        running.remove(entry)
                        self._take(ended, parts, folder)
        finally:
            for child, _, _ in running:
                child.kill()

    def _take(self, ended: Ended, parts: list[Part], folder: Path) -> None:
        if any(sign in ended.stderr for sign in DISK_FULL):
            raise BenchError("disk_full", f"The disk became full while nvcc compiled in {folder.parent}.")
        if ended.returncode == 0:
            self._passed(parts, compiler.ptx(folder))
            return
        self._cache.need_free(WORK_BYTES, "nvcc")
        found = compiler.diagnostics(ended.stderr, {part.unit.name for part in parts})
        rest = [self._blame(part, found) for part in parts]
        if rest != parts:
            remaining = [part for part in rest if part.remaining]
            for part in rest:
                if not part.remaining:
                    self._close(part.unit)
            if remaining:
                self._queue.append(remaining)
        elif len(parts) > 1:
            middle = len(parts) // 2
            self._queue.extend((parts[:middle], parts[middle:]))
        else:
            self._crashed(parts[0], ended, found)

    def _passed(self, parts: list[Part], ptx: str) -> None:
        built: dict[Variant, Kernel] = {}
        variants = [one.variant for part in parts for one in part.remaining]
        wanted = {(*_identity(variant), schedule): variant
                  for variant in variants for schedule in (None, variant.schedule)}  # fmt: skip
        for kernel in probe_lines.parse(ptx):
            identity = _identity(kernel)
            # types do not always tell what a schedule was called
            variant = wanted.get((*identity, kernel.schedule)) or wanted.get((*identity, None))
            if variant is not None:
                built[variant] = kernel
        for part in parts:
            unit = self._open[part.unit.name]
            unit.kernels = {one: built[one.variant] for one in part.remaining if one.variant in built}
            self._close(part.unit)

    def _blame(self, part: Part, found: Sequence[compiler.Diagnostic]) -> Part:
        """The part without the instantiations that the diagnostics lead to; each keeps its first error."""
        unit = self._open[part.unit.name]
        removed = list(part.removed)
        for one in part.remaining:
            lines = range(one.first_line, one.last_line + 1)
            mine = [d for d in found if d.place and d.place[0] == part.unit.name and d.place[1] in lines]
            if mine:
                unit.errors[one] = self._frontend.shown(mine[0].message)
                unit.log.extend(self._frontend.shown(diagnostic.text) for diagnostic in mine)
                removed.append(one)
        return part if len(removed) == len(part.removed) else Part(part.unit, tuple(removed))

    def _crashed(self, part: Part, ended: Ended, found: Sequence[compiler.Diagnostic]) -> None:
        unit = self._open[part.unit.name]
        unit.crashed = not found
        detail = self._frontend.shown(found[0].message if found else compiler.first_complaint(ended))
        unit.errors.update(dict.fromkeys(part.remaining, detail))
        unit.log.append(self._frontend.shown(ended.stderr) or detail)
        self._close(part.unit)

    def _close(self, unit: Unit) -> None:
        state = self._open[unit.name]
        lines = [f"// {kernel.line}" for one in unit.instantiations if (kernel := state.kernels.get(one))]
        state.log = [f"$ {self._frontend.shown_command()}", *state.log, *lines]
        # A crash may be the machine's fault, so the next survey tries again.
        self._done(unit, state.close(), not state.crashed)


def borrowed(compiled: str, release: str) -> str:
    """The line that says which release a log is of, empty if it is this one's own."""
    if compiled == release:
        return ""
    return f"# compiled for flashinfer {compiled}; {release} gives the compiler the same text\n"


def _identity(kernel: Variant | Kernel) -> tuple[object, ...]:
    return kernel.inputs, kernel.output, kernel.tile, kernel.cluster, kernel.fusion, kernel.swap_ab


def _load(cache: Cache, place: Path, count: int, release: str) -> UnitVerdict | None:
    stored: Any = cache.read_json(place)
    try:
        kernels = [value and Kernel.from_json(value) for value in stored["kernels"]]
        log = borrowed(stored["release"], release) + str(stored["log"])
        verdict = UnitVerdict(kernels, list(stored["errors"]), log, cached=True)
    except (TypeError, KeyError, ValueError):
        return None
    return verdict if len(verdict.kernels) == len(verdict.errors) == count else None
