"""GPU time by CUDA graph: many calls in one graph, between two events.

A sample is one replay over its calls, less what the timer adds to an empty kernel (`calibrate.py`): the gap
between two kernels of a graph. No host time is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from workers.bench.document import Timer as TimerName
from workers.bench.timers.base import CannotTimeError, Load, Outputs, Pace, whole_turns
from workers.bench.timers.between import Between, less_overhead

#: GPU time one replay shall cover: starting a graph costs about 10 µs once (seen on an H200), here 0.25 %
REPLAY_S = 4e-3
MAX_CALLS = 1024
#: over the time that a launch took
_MARGIN = 2.0


class Graph:
    """The calls captured once and replayed. Raises CannotTimeError where they cannot be captured."""

    name: TimerName = "cuda_graph"

    def __init__(self, torch: Any, load: Load, pace: Pace, overhead_s: float) -> None:
        wanted = int(REPLAY_S / pace.gpu_s) + 1
        self.calls = whole_turns(wanted, len(load.calls), MAX_CALLS)
        self.last = (self.calls - 1) % len(load.calls)
        self.outputs: Outputs = ()
        self._overhead_s = overhead_s
        side = torch.cuda.Stream()

        def repeat() -> None:
            for turn in range(self.calls):
                if load.flush is not None:
                    load.flush()
                self.outputs = load.calls[turn % len(load.calls)]()

        def flushes() -> None:
            for _ in range(self.calls):
                load.flush()  # type: ignore[misc]

        # Handles and workspaces are made on the capturing stream before the capture, never in it.
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            load.calls[0]()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._graph = _captured(torch, side, repeat)
        self._bare = None if load.flush is None else _captured(torch, side, flushes)
        self._between = Between(torch, _MARGIN * _launch_s(torch, self._graph))

    def samples(self, poll: Callable[[], object]) -> list[float]:
        spent = self._between.seconds(self._graph.replay, poll)
        if self._bare is not None:
            spent -= self._between.seconds(self._bare.replay, poll)
        return [less_overhead(spent / self.calls, self._overhead_s)]


def _launch_s(torch: Any, graph: Any) -> float:
    """What the host takes to launch a graph that it has launched before: longer for more calls."""
    for _ in range(2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        graph.replay()
        took = time.perf_counter() - began
    torch.cuda.synchronize()
    return took


def _captured(torch: Any, stream: Any, work: Callable[[], None]) -> Any:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            work()
    except RuntimeError as error:
        torch.cuda.synchronize()  # raises again where the device itself is broken
        raise CannotTimeError(f"The calls cannot be captured in a CUDA graph: {error}.") from error
    return graph
