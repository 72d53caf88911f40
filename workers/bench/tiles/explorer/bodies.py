"""Whole kernels, one a compilation: registers and spills of the configurations worth it."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from workers.bench.document import BenchError
from workers.bench.memory import available_bytes
from workers.bench.tiles import compiler
from workers.bench.tiles.cache import Cache
from workers.bench.tiles.children import Ended
from workers.bench.tiles.deep import KERNEL_BYTES
from workers.bench.tiles.explorer import nvcc
from workers.bench.tiles.explorer.nvcc import Nvcc
from workers.bench.tiles.explorer.search import KIND, Verdict
from workers.bench.tiles.explorer.space import Config
from workers.bench.tiles.ptxas import Entry

_POLL_SECONDS = 0.2
_LOG_CHARACTERS = 4000


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """ptxas' figures and the cubin's size in bytes, or the error. CPU seconds of the compilation."""

    cpu_seconds: float
    log: str
    entry: Entry | None = None
    object_bytes: int | None = None
    error: str | None = None


def promising(
    verdicts: dict[Config, Verdict], shipped: Collection[tuple[str, tuple[int, int, int]]], limit_bytes: int
) -> list[Config]:
    """What fits and is not among `shipped` (inputs, tile): plain kernels, most work an operand first."""
    found = [
        config
        for config, verdict in verdicts.items()
        if verdict.kernel is not None
        and verdict.kernel.need_bytes <= limit_bytes
        and (config.inputs, config.tile) not in shipped
        and not config.with_c
        and not config.swap_ab
        and config.schedule != "auto"
    ]
    return sorted(found, key=_reuse, reverse=True)


def _reuse(config: Config) -> tuple[float, int]:
    """Multiplications for each operand element loaded, M N / (M + N); then K."""
    m, n, k = config.tile
    return m * n / (m + n), k


def find(
    compile_with: Nvcc,
    configs: Sequence[Config],
    cache: Cache,
    scratch: Path,
    progress: Callable[[int, str], None],
) -> dict[Config, Body]:
    """One after the other: each takes 5 to 7 GB. BenchError where so much memory is not free."""
    found = {}
    for number, config in enumerate(configs):
        place = cache.place(KIND, compile_with.key(config, full=True))
        body = _load(cache.read_json(place))
        if body is None:
            progress(number, f"compiling the whole of {config.name}")
            body, keep = _compile(compile_with, config, scratch)
            if keep:
                cache.write_json(place, dataclasses.asdict(body))
        found[config] = body
    return found


def _compile(compile_with: Nvcc, config: Config, scratch: Path) -> tuple[Body, bool]:
    available = available_bytes()
    if available is not None and available < KERNEL_BYTES:
        raise BenchError(
            "no_memory",
            f"A whole kernel takes up to {KERNEL_BYTES / 1e9:.1f} GB of memory to compile, "
            f"{available / 1e9:.1f} GB are free.",
        )
    folder = Path(tempfile.mkdtemp(prefix="nvcc-", dir=scratch))
    child = compile_with.start([config], folder, full=True)
    try:
        while (ended := child.poll()) is None:
            time.sleep(_POLL_SECONDS)
    finally:
        child.kill()
    return _body(compile_with, config, ended, folder)


def _body(compile_with: Nvcc, config: Config, ended: Ended, folder: Path) -> tuple[Body, bool]:
    output = ended.stdout + ended.stderr
    # ptxas speaks last, after pages of warnings
    log = f"$ {compile_with.shown_command(full=True)}\n{compile_with.shown(output)[-_LOG_CHARACTERS:]}"
    if ended.returncode == 0:
        entry, size = nvcc.body(output, folder)
        return Body(ended.cpu_seconds, log, entry, size), True
    errors = nvcc.errors(ended.stderr, {config.name}).get(config.name)
    if errors:
        return Body(ended.cpu_seconds, log, error=nvcc.reason(errors)), True
    # killed or out of time: not the kernel's fault, so nothing is kept
    return Body(ended.cpu_seconds, log, error=compile_with.shown(compiler.first_complaint(ended))), False


def _load(stored: Any) -> Body | None:
    try:
        return Body(**{**stored, "entry": stored["entry"] and Entry(**stored["entry"])})
    except (TypeError, KeyError):
        return None
