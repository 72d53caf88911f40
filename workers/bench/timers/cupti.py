"""GPU time by CUPTI's activity records: when each kernel, copy and fill began and ended on the GPU.

A sample is one call, from the start of its first kernel to the end of its last. An empty kernel goes between
calls, so that records can be told apart and no kernel starts early over its predecessor's end. Nothing is
subtracted. The records come through cupti-python (https://docs.nvidia.com/cupti-python/); torch's profiler
hands out the same ones, for where it alone is there and may slow the process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from workers.bench.document import Timer as TimerName
from workers.bench.timers.base import (
    FENCE_KERNEL,
    CannotTimeError,
    Load,
    Outputs,
    Pace,
    fence,
    head_start,
    whole_turns,
)
from workers.bench.timers.spans import Record, dominant, span, split

BATCH_S = 4e-3
#: of calls; each brings an empty kernel with it, and about a thousand launches may wait in a stream
MAX_CALLS = 256
_BUFFER_BYTES = 8 * 2**20
_FORCED = 1


class Trace(Protocol):
    """Records of what the GPU did."""

    def start(self) -> None:
        """Raises CannotTimeError where no trace can be taken."""

    def stop(self) -> list[Record]:
        """What the GPU did since `start`; call it when the GPU is idle."""


class CuptiTrace:
    """Through cupti-python. One a process (`cupti_trace`): CUPTI keeps one pair of callbacks."""

    def __init__(self) -> None:
        try:
            self._cupti: Any = importlib.import_module("cupti.cupti")
        except Exception as error:  # what a library without its own libraries raises is its own affair
            raise CannotTimeError(f"cupti-python is not importable here: {error}.") from error
        kinds = self._cupti.ActivityKind
        self._names = {kinds.MEMCPY: "memcpy", kinds.MEMSET: "memset", kinds.CONCURRENT_KERNEL: ""}
        self._records: list[Record] = []
        self._registered = False

    def start(self) -> None:
        self._records.clear()
        try:
            if not self._registered:
                self._cupti.activity_register_callbacks(_requested, self._completed)
                self._registered = True
            for kind in self._names:
                self._cupti.activity_enable(kind)
        except Exception as error:  # another profiler holds it, or the driver refuses
            raise CannotTimeError(f"CUPTI takes no trace here: {error}.") from error

    def stop(self) -> list[Record]:
        self._cupti.activity_flush_all(_FORCED)
        for kind in self._names:
            self._cupti.activity_disable(kind)
        return list(self._records)

    def _completed(self, activities: list[Any]) -> None:
        for each in activities:
            name = self._names.get(each.kind)
            if name is not None:
                self._records.append(Record(each.start, each.end, name or each.name))


def _requested() -> tuple[int, int]:
    """Size of a buffer for records; 0: as many as fit."""
    return _BUFFER_BYTES, 0


_made: list[CuptiTrace] = []


def cupti_trace() -> CuptiTrace:
    """This process's trace. Raises CannotTimeError where cupti-python is not there."""
    if not _made:
        _made.append(CuptiTrace())
    return _made[0]


class ProfilerTrace:
    """Through torch's profiler, which has CUPTI within. A process that used it launches slower ever after."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def start(self) -> None:
        profiler = self._torch.profiler
        self._profile = profiler.profile(activities=[profiler.ProfilerActivity.CUDA])
        self._profile.__enter__()

    def stop(self) -> list[Record]:
        self._profile.__exit__(None, None, None)
        return [
            Record(event.start_ns(), event.start_ns() + event.duration_ns(), event.name())
            for event in self._profile.profiler.kineto_results.events()
            if event.device_type() == self._torch.autograd.DeviceType.CUDA
        ]


class Cupti:
    """Plain calls under a trace. Raises CannotTimeError where there can be none."""

    name: TimerName = "cupti"

    def __init__(self, torch: Any, load: Load, pace: Pace, trace: Trace) -> None:
        self._torch = torch
        self._load = load
        self._trace = trace
        self.calls = whole_turns(int(BATCH_S / pace.gpu_s) + 1, len(load.calls), MAX_CALLS)
        self.last = (self.calls - 1) % len(load.calls)
        self.outputs: Outputs = ()
        #: of the dominant kernel, once there are samples
        self.kernel: str | None = None
        self._issue_s = 2e-4 + 1.5 * self.calls * pace.issue_s

    def samples(self, poll: Callable[[], object]) -> list[float]:
        """Raises CannotTimeError where records are missing."""
        torch = self._torch
        self._trace.start()
        head_start(torch, self._issue_s)
        self._issue()
        poll()
        torch.cuda.synchronize()
        groups = split(self._trace.stop(), FENCE_KERNEL)
        # The head start bears the fence's name: the first group holds nothing, or the first flush.
        groups = groups[1:] if self._load.flush is None else groups[1::2]
        if len(groups) != self.calls or not all(groups):
            raise CannotTimeError(
                f"CUPTI told of {sum(map(bool, groups))} calls, of {self.calls} that were made."
            )
        if self.kernel is None:
            name = dominant(record for group in groups for record in group)
            self.kernel = None if name is None else torch._C._demangle(name)[:300]
        return [span(group) for group in groups]

    def _issue(self) -> None:
        """fence call fence call … fence, or flush fence call fence flush fence call fence …"""
        load, torch = self._load, self._torch
        for turn in range(self.calls):
            if load.flush is not None:
                load.flush()
            fence(torch)
            self.outputs = ()
            self.outputs = load.calls[turn % len(load.calls)]()
            if load.flush is not None:
                fence(torch)
        if load.flush is None:
            fence(torch)
