"""One fresh process: every kernel by every timer. Reads {"overheads"} or {"calibrate"} on stdin. Needs torch.

Writes {"floors", "overheads", "gpu"} when asked to calibrate, else {kernel: {timer: {"seconds", "clock_mhz"}
or {"error"}}}.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from workers.bench.gemm import nvidia
from workers.bench.gemm.child import own_channel
from workers.bench.gemm.cuda import Cuda
from workers.bench.timers import base, choose
from workers.bench.timers.base import CannotTimeError, Load, Timer
from workers.bench.timers.comparison import table
from workers.bench.timers.comparison.kernels import KERNELS, Kernel, load_of, sets_of
from workers.bench.timers.cupti import Cupti, ProfilerTrace, Trace, cupti_trace

WARM_UP_S, WINDOW_S = 0.1, 0.08
Way = Callable[[], float]


class Clock:
    """The SM clock while something runs, looked at from a thread beside it."""

    def __init__(self, source: nvidia.Source) -> None:
        self._source = source

    def __enter__(self) -> Clock:
        self._source.take()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(nvidia.POLL_EVERY_S):
            self._source.poll()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        clocks = [each.sm_clock_mhz for each in self._source.take() if each.sm_clock_mhz is not None]
        self.mhz = statistics.median(clocks) if clocks else None


def main() -> int:
    order = json.loads(sys.stdin.read())
    channel = own_channel()
    import torch

    torch.set_grad_enabled(False)
    device = Cuda(torch, None)
    if order.get("calibrate"):
        told: dict[str, Any] = dataclasses.asdict(device.calibrate()) | {"gpu": torch.cuda.get_device_name()}
    else:
        told = measured(torch, device.source, order["overheads"], order["kernels"])
    channel.write(json.dumps(told))
    channel.flush()
    return 0


def measured(
    torch: Any, source: nvidia.Source, overheads: dict[str, float], count: int
) -> dict[str, dict[str, Any]]:
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    found: dict[str, dict[str, Any]] = {kernel.name: {} for kernel in KERNELS[:count]}
    # Who attaches CUPTI comes after those who do not.
    for ways in (_plain, _traced):
        for kernel in KERNELS[:count]:
            sets = sets_of(torch, kernel, l2)
            load = load_of(torch, kernel, sets)
            _warm(torch, load)
            for name, way in ways(torch, kernel, sets, load, overheads):
                try:
                    with Clock(source) as clock:
                        seconds = way()
                    found[kernel.name][name] = {"seconds": seconds, "clock_mhz": clock.mhz}
                except Exception as error:  # a tool that is missing or fails is a gap in the table
                    found[kernel.name][name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            del sets, load
            torch.cuda.empty_cache()
    return found


def _plain(
    torch: Any, kernel: Kernel, sets: list[tuple[Any, ...]], load: Load, overheads: dict[str, float]
) -> Iterator[tuple[str, Way]]:
    pace = base.pace(torch, load)
    yield table.GRAPH, lambda: _ours(choose.make(torch, "cuda_graph", load, pace, overheads))
    yield table.EVENTS, lambda: _ours(choose.make(torch, "cuda_events", load, pace, overheads))
    yield table.TRITON, lambda: _triton(load)
    yield table.FI_GRAPH, lambda: _flashinfer(torch, kernel, sets, use_cuda_graph=True)
    yield table.FI_EVENTS, lambda: _flashinfer(torch, kernel, sets)


def _traced(
    torch: Any, kernel: Kernel, sets: list[tuple[Any, ...]], load: Load, overheads: dict[str, float]
) -> Iterator[tuple[str, Way]]:
    """Kernel time: by cupti-python, or by torch's profiler where that is not there."""
    pace = base.pace(torch, load)
    try:
        trace: Trace = cupti_trace()
    except CannotTimeError:
        yield table.PROFILER, lambda: _ours(Cupti(torch, load, pace, ProfilerTrace(torch)))
    else:
        yield table.CUPTI, lambda: _ours(Cupti(torch, load, pace, trace))


def _warm(torch: Any, load: Load) -> None:
    until = time.monotonic() + WARM_UP_S
    while time.monotonic() < until:
        for call in load.calls:
            call()
        torch.cuda.synchronize()


def _ours(timer: Timer) -> float:
    timer.samples(_nothing)
    samples: list[float] = []
    until = time.monotonic() + WINDOW_S
    while time.monotonic() < until:
        samples += timer.samples(_nothing)
    return statistics.median(samples)


def _triton(load: Load) -> float:
    """It empties the L2 itself, before each call."""
    do_bench = importlib.import_module("triton.testing").do_bench
    calls = iter(range(2**40))
    return float(
        do_bench(
            lambda: load.calls[next(calls) % len(load.calls)](),
            warmup=25, rep=int(WINDOW_S * 1e3), return_mode="median",
        )
    ) / 1e3  # fmt: skip


def _flashinfer(torch: Any, kernel: Kernel, sets: list[tuple[Any, ...]], **how: bool) -> float:
    """Cold by its own means: flushed by events; rotated within a graph, which shall hold a turn."""
    bench_gpu_time = importlib.import_module("flashinfer.testing").bench_gpu_time
    times = bench_gpu_time(
        lambda *tensors: kernel.work(torch, *tensors),
        input_args=sets[0],
        cold_l2_cache=True,
        repeat_time_ms=int(WINDOW_S * 1e3),
        num_iters_within_graph=max(10, len(sets)),
        **how,
    )
    return statistics.median(float(each) for each in times) / 1e3


def _nothing() -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
