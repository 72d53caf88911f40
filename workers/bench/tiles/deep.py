"""Tiers body and full: the kernels that fit, compiled with their real bodies, one a compilation.

One kernel takes minutes and up to 6.4 GB, and several in one compilation share little of that. Alone in its
unit, what ptxas says needs no telling apart. Each is kept as soon as it is known, so that an interrupted
survey loses the kernels under way and no more.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError, Finding, Tier
from workers.bench.memory import available_bytes
from workers.bench.tiles import compiler, content, instantiations, ptxas, verdicts
from workers.bench.tiles.cache import WORK_BYTES, Cache
from workers.bench.tiles.children import Child, Ended
from workers.bench.tiles.compiler import Frontend, Part
from workers.bench.tiles.instantiations import Instantiation, Unit

KERNEL_BYTES = 7_500_000_000
_MOST_JOBS = 2
_MEMORY_PATIENCE_SECONDS, _MEMORY_POLL_SECONDS = 600, 5
_POLL_SECONDS = 0.2
_KERNEL = "device_kernel"
_DETAIL_CHARACTERS = 500
#: cicc or ptxas ended by somebody else, as nvcc tells it: the kernel's out-of-memory killer does that
_KILLED = re.compile(r"died due to signal 9\b")

Say = Callable[[int, int, str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    unit: Unit
    one: Instantiation

    @property
    def name(self) -> str:
        return f"{self.unit.name}:{self.one.first_line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """What the compiler made of a kernel's body: an error, or at tier full the figures.

    Registers a thread, spills and stack bytes a thread, the cubin's size in bytes. `cpu_seconds` is what the
    compilation took when it was made.
    """

    log: str
    cpu_seconds: float
    error: str | None = None
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    object_bytes: int | None = None


def wanted(units: Sequence[Unit], evidence: Sequence[Finding]) -> list[Wanted]:
    """The instantiations that fit by their types, bf16 outputs and the largest tiles first: spills are in
    question there."""
    fitting = {_of_finding(finding) for finding in evidence if finding.stage == "fits" and finding.passed}
    found = [
        Wanted(unit, one)
        for unit in units
        for one in unit.instantiations
        if _of_instantiation(unit, one) in fitting
    ]
    return sorted(found, key=_turn)


def _turn(wanted: Wanted) -> tuple[bool, int]:
    variant = wanted.one.variant
    m, n, _ = variant.tile
    return variant.output != "bf16", -m * n


def survey(
    frontend: Frontend,
    units: Sequence[Unit],
    evidence: Sequence[Finding],
    cache: Cache,
    scratch: Path,
    *,
    jobs: int | None,
    limit: int | None,
    say: Say,
) -> tuple[list[Finding], dict[str, str]]:
    """Findings at the front end's tier about what fits according to `evidence`, and their logs by name."""
    kernels = wanted(units, evidence)[:limit]
    most = min(jobs or len(os.sched_getaffinity(0)), _MOST_JOBS)
    with cache.lock(f"bodies-{frontend.sources.digest[:32]}-{frontend.arch.name}"):
        bodies = find(frontend, units, kernels, cache, scratch, most, say)
    compiled = {_of_finding(finding): finding for finding in evidence if finding.stage == "compiled"}
    found, logs = [], {}
    for each in kernels:
        body = bodies.get(each.name)
        if body is not None:
            name = f"{each.name} {frontend.tier}"
            logs[name] = body.log
            found.append(
                _finding(compiled[_of_instantiation(each.unit, each.one)], body, frontend.tier, name)
            )
    return found, logs


def find(
    frontend: Frontend,
    units: Sequence[Unit],
    kernels: Sequence[Wanted],
    cache: Cache,
    scratch: Path,
    jobs: int,
    say: Say,
) -> dict[str, Body]:
    """Bodies by the kernels' names. One whose compiler was killed is left out: the machine is to blame."""
    contents = content.of(frontend, units, cache, scratch)
    places = {
        each.name: cache.place("bodies", contents[each.unit.name].kernel_key(each.unit, each.one))
        for each in kernels
    }
    release = frontend.sources.version
    bodies = {name: body for name, place in places.items() if (body := _load(cache, place, release))}
    queue = collections.deque(each for each in kernels if each.name not in bodies)
    left_out = 0

    def tell() -> None:
        text = f"tier {frontend.tier}: {len(bodies)} of {len(kernels)} kernels compiled with their bodies"
        say(len(bodies) + left_out, len(kernels), text + (f", {left_out} killed" if left_out else ""))

    running: list[tuple[Child, Wanted, Path]] = []
    allowed = 0
    tell()
    try:
        while queue or running:
            if queue and not running:
                allowed = min(jobs, _room(say, len(bodies), len(kernels)))
            if queue and len(running) < allowed and (not running or _fitting() >= 1):
                each = queue.popleft()
                folder = Path(tempfile.mkdtemp(prefix="nvcc-", dir=scratch))
                part = Part(instantiations.alone(each.unit, each.one))
                running.append((frontend.start([part], folder), each, folder))
            time.sleep(_POLL_SECONDS)
            for entry in list(running):
                child, each, folder = entry
                ended = child.poll()
                if ended is None:
                    continue
                running.remove(entry)
                body, keep = _body(frontend, each, ended, folder, cache)
                if body is None:
                    left_out += 1
                else:
                    bodies[each.name] = body
                    if keep:
                        stored = {"release": release, **dataclasses.asdict(body)}
                        cache.write_json(places[each.name], stored)
                tell()
    finally:
        for child, _, _ in running:
            child.kill()
    return bodies


def _fitting() -> int:
    """How many more compilations the free memory bears. What one just started will take is still free."""
    available = available_bytes()
    return _MOST_JOBS if available is None else int(available // KERNEL_BYTES)


def _room(say: Say, done: int, total: int) -> int:
    """The same where none runs: at least one, waited for. BenchError when the memory does not come."""
    started = time.monotonic()
    while (room := _fitting()) < 1:
        free = (available_bytes() or 0) / 1e9
        need = f"a kernel's body takes up to {KERNEL_BYTES / 1e9:.1f} GB to compile, {free:.1f} GB are free"
        if time.monotonic() - started > _MEMORY_PATIENCE_SECONDS:
            raise BenchError("no_memory", f"Too little memory: {need}.")
        say(done, total, f"waiting for memory: {need}")
        time.sleep(_MEMORY_POLL_SECONDS)
    return room


def _body(
    frontend: Frontend, each: Wanted, ended: Ended, folder: Path, cache: Cache
) -> tuple[Body | None, bool]:
    """The body and whether to keep it; None where the compilation was killed or ran out of time."""
    if any(sign in ended.stderr for sign in verdicts.DISK_FULL):
        raise BenchError("disk_full", f"The disk became full while nvcc compiled in {folder.parent}.")
    opening = f"$ {frontend.shown_command()}\n"
    if ended.returncode == 0:
        return _passed(frontend, opening, ended, folder), True
    cache.need_free(WORK_BYTES, "nvcc")
    said = frontend.shown(ended.stderr)
    errors = compiler.diagnostics(ended.stderr, {each.unit.name})
    if errors:
        error = frontend.shown(errors[0].message)
        text = "\n".join(frontend.shown(one.text) for one in errors)
        return Body(f"{opening}{text}\n", ended.cpu_seconds, error), True
    if ended.timed_out or ended.returncode in (-9, 9, 137) or _KILLED.search(ended.stderr):
        return None, False
    complaint = compiler.first_complaint(ended)
    return Body(f"{opening}{said or complaint}\n", ended.cpu_seconds, frontend.shown(complaint)), False


def _passed(frontend: Frontend, opening: str, ended: Ended, folder: Path) -> Body:
    if frontend.tier != "full":
        return Body(opening, ended.cpu_seconds)
    output = ended.stdout + ended.stderr
    log = f"{opening}{frontend.shown(output)}"
    entries = [entry for entry in ptxas.parse(output) if _KERNEL in entry.name]
    if len(entries) != 1:
        raise BenchError(
            "bad_unit",
            f"{folder.name}: one instantiation made {len(entries)} kernels, so that none can be told.",
        )
    (entry,) = entries
    return Body(
        log,
        ended.cpu_seconds,
        registers=entry.registers,
        spill_store_bytes=entry.spill_store_bytes,
        spill_load_bytes=entry.spill_load_bytes,
        stack_bytes=entry.stack_bytes,
        object_bytes=compiler.cubin_bytes(folder),
    )


def _finding(types: Finding, body: Body, tier: Tier, log: str) -> Finding:
    """The finding of tier types about the same kernel, with what its body tells."""
    error = body.error
    return dataclasses.replace(
        types,
        tier=tier,
        passed=error is None,
        reason=None if error is None else "compile_error",
        detail=None if error is None else error[:_DETAIL_CHARACTERS],
        registers=body.registers,
        spill_store_bytes=body.spill_store_bytes,
        spill_load_bytes=body.spill_load_bytes,
        stack_bytes=body.stack_bytes,
        object_bytes=body.object_bytes,
        cpu_seconds=body.cpu_seconds,
        log=log,
    )


def _of_instantiation(unit: Unit, one: Instantiation) -> tuple[object, ...]:
    variant = one.variant
    shape = variant.inputs, variant.output, variant.tile, variant.cluster
    return unit.name, *shape, variant.fusion, variant.swap_ab, variant.schedule


def _of_finding(finding: Finding) -> tuple[object, ...]:
    shape = finding.inputs, finding.output, finding.tile, finding.cluster
    return finding.unit, *shape, finding.fusion, finding.swap_ab, finding.schedule


def _load(cache: Cache, place: Path, release: str) -> Body | None:
    stored: Any = cache.read_json(place)
    if not isinstance(stored, Mapping):
        return None
    try:
        values = {field.name: stored[field.name] for field in dataclasses.fields(Body)}
        values["log"] = verdicts.borrowed(stored["release"], release) + str(stored["log"])
        body = Body(**values)
    except (KeyError, TypeError):
        return None
    numbers = [getattr(body, field.name) for field in dataclasses.fields(Body)[3:]]
    sound = all(number is None or (isinstance(number, int) and number >= 0) for number in numbers)
    return body if sound and isinstance(body.cpu_seconds, (int, float)) else None
