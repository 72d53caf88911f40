"""What each timer says of an empty kernel: the launch floors, and what graph and events add to a kernel.

Between two calls of a graph or a stream the GPU is idle for a moment, and a kernel's own time does not hold
that gap. An empty kernel shows it: its time a call by graph or by events, less its time by CUPTI, is the
timer's overhead (`overhead.py`), and is subtracted from every sample of that timer. Taken once a document, in
a process of its own, since torch's profiler, which stands in where cupti-python is missing, slows the
launches after it.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

from workers.bench.timers.base import CannotTimeError, Load, Timer, pace
from workers.bench.timers.cupti import Cupti, ProfilerTrace, cupti_trace
from workers.bench.timers.events import Events
from workers.bench.timers.graph import Graph

#: of batches; the median over them settles within a few hundredths of a microsecond
_BATCHES = 25


def empty(torch: Any) -> Load:
    """The least that a kernel of these libraries does: one element is written."""
    tiny = torch.zeros(1, device="cuda")
    return Load([lambda: (tiny.fill_(1.0),)])


def floors(torch: Any) -> dict[str, float]:
    """Seconds of an empty kernel by "cuda_graph", "cuda_events" and, where a trace can be had, "cupti"."""
    load = empty(torch)
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
