"""What each timer says of small kernels: the launch floors, and what graph and events add.

Between two calls of a graph or a stream the GPU is idle for a moment, and a kernel's own time does not hold
that gap. It shows in small kernels: their time a call by graph or by events, less their time by CUPTI, is the
timer's overhead (`overhead.py`), and is subtracted from every sample of that timer. Taken once a document, in
a process of its own, since torch's profiler, which stands in where cupti-python is missing, slows the
launches after it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable
from typing import Any

from workers.bench.gemm.sets import CACHE_MULTIPLE
from workers.bench.timers.base import Call, CannotTimeError, Load, Timer, pace
from workers.bench.timers.cupti import Cupti, ProfilerTrace, cupti_trace
from workers.bench.timers.events import Events
from workers.bench.timers.graph import Graph
from workers.bench.timers.overhead import overheads

#: of batches; the median over them settles within a few hundredths of a microsecond
_BATCHES = 25
#: of a product that takes 6 µs on an H200
_EDGE = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds by timer: `floors` of an empty kernel, by "cupti" only where a trace can be had, and then
    `overheads` of "cuda_graph" and "cuda_events"."""

    floors: dict[str, float]
    overheads: dict[str, float]


def calibrate(torch: Any) -> Calibration:
    small = [_by_each(torch, load) for load in (_scaling(torch), _product(torch))]
    return Calibration(_by_each(torch, empty(torch)), overheads(small))


def empty(torch: Any) -> Load:
    """The least that a kernel of these libraries does: one element is written."""
    tiny = torch.zeros(1, device="cuda")
    return Load([lambda: (tiny.fill_(1.0),)])


def floor_in_graph(torch: Any) -> float | None:
    """Seconds that an empty kernel takes among others of a graph; None where none can be captured."""
    load = empty(torch)
    with contextlib.suppress(CannotTimeError):
        timer = Graph(torch, load, pace(torch, load), 0.0)
        return statistics.median(each for _ in range(_BATCHES) for each in timer.samples(_nothing))
    return None


def _scaling(torch: Any) -> Load:
    """A plain kernel of some microseconds; empty ones overlap with one another."""
    w = torch.ones(7168, dtype=torch.bfloat16, device="cuda")

    def call() -> Call:
        x, y = (torch.ones(64, 7168, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        return lambda: (torch.mul(x, w, out=y),)

    return _rotated(torch, call, 2 * 64 * 7168 * 2)


def _product(torch: Any) -> Load:
    """A kernel with much shared memory and clusters, which takes longer to begin."""

    def call() -> Call:
        a, b, d = (torch.ones(_EDGE, _EDGE, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        return lambda: (torch.mm(a, b, out=d),)

    return _rotated(torch, call, 3 * _EDGE * _EDGE * 2)


def _rotated(torch: Any, make: Callable[[], Call], held: int) -> Load:
    """Calls over sets that outrun the L2, as cases are measured: on one set that stays there the gap was seen
    to vanish, where cases showed 0.3 µs of it (H200)."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return Load([make() for _ in range(max(2, math.ceil(CACHE_MULTIPLE * cache / held)))])


def _by_each(torch: Any, load: Load) -> dict[str, float]:
    """Median seconds a call by every timer that can be had."""
    roughly = pace(torch, load)
    makers: dict[str, list[Callable[[], Timer]]] = {
        "cuda_graph": [lambda: Graph(torch, load, roughly, 0.0)],
        "cuda_events": [lambda: Events(torch, load, roughly, 0.0)],
        "cupti": [
            lambda: Cupti(torch, load, roughly, cupti_trace()),
            lambda: Cupti(torch, load, roughly, ProfilerTrace(torch)),
        ],
    }
    found: dict[str, float] = {}
    for name, ways in makers.items():
        for make in ways:
            with contextlib.suppress(CannotTimeError):
                timer = make()
                timer.samples(_nothing)
                samples = [each for _ in range(_BATCHES) for each in timer.samples(_nothing)]
                found[name] = statistics.median(samples)
                break
    return found


def _nothing() -> None:
    pass
