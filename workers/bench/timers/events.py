"""GPU time by CUDA events around many plain calls, issued while a head start keeps the GPU busy.

A sample is the time between the events over the calls, less what the timer adds to an empty kernel
(`calibrate.py`): the gap between two kernels of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers.bench.document import Timer as TimerName
from workers.bench.timers.base import HEAD_START_MOST_S, CannotTimeError, Load, Outputs, Pace, whole_turns
from workers.bench.timers.between import Between, less_overhead

REPLAY_S = 4e-3
#: of launches waiting in a stream; beyond about a thousand the driver makes the host wait
MAX_CALLS = 256
#: over the time that issuing took in a trial
_MARGIN = 1.5


class Events:
    """Plain calls between events. Raises CannotTimeError where the host cannot keep ahead of the GPU."""

    name: TimerName = "cuda_events"

    def __init__(self, torch: Any, load: Load, pace: Pace, overhead_s: float) -> None:
        self.calls = whole_turns(int(REPLAY_S / pace.gpu_s) + 1, len(load.calls), MAX_CALLS)
        self.last = (self.calls - 1) % len(load.calls)
        self.outputs: Outputs = ()
        self._load = load
        self._overhead_s = overhead_s
        issue_s = 2e-4 + _MARGIN * self.calls * pace.issue_s
        if issue_s > HEAD_START_MOST_S:
            raise CannotTimeError(
                f"Issuing {self.calls} calls takes the host {issue_s:.1f} s, which events would show."
            )
        self._between = Between(torch, issue_s)

    def samples(self, poll: Callable[[], object]) -> list[float]:
        spent = self._between.seconds(self._calls, poll)
        if self._load.flush is not None:
            spent -= self._between.seconds(self._flushes, poll)
        return [less_overhead(spent / self.calls, self._overhead_s)]

    def _calls(self) -> None:
        for turn in range(self.calls):
            if self._load.flush is not None:
                self._load.flush()
            self.outputs = ()
            self.outputs = self._load.calls[turn % len(self._load.calls)]()

    def _flushes(self) -> None:
        assert self._load.flush is not None
        for _ in range(self.calls):
            self._load.flush()
