"""The time between two events around work that is in the queue before the GPU comes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers.bench.timers.base import CannotTimeError, head_start


class Between:
    """Two events, behind a head start of `issue_s` seconds: what the host needs to issue the work."""

    def __init__(self, torch: Any, issue_s: float) -> None:
        self._torch = torch
        self._issue_s = issue_s
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds(self, work: Callable[[], object], poll: Callable[[], object]) -> float:
        head_start(self._torch, self._issue_s)
        self._start.record()
        work()
        self._end.record()
        poll()  # while the GPU works
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end)) / 1e3


def less_overhead(seconds: float, overhead_s: float) -> float:
    """A call's own time. Raises CannotTimeError where nothing is left of it."""
    if seconds <= overhead_s:
        raise CannotTimeError(
            f"A call took {seconds * 1e6:.2f} µs, no more than the {overhead_s * 1e6:.2f} µs timing adds."
        )
    return seconds - overhead_s
