"""What is timed, what a timer is, and what the timers share."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workers.bench.document import Timer as TimerName

#: cycles a second of the SM clock, at most: the head start then lasts at least as long as asked
SPIN_HZ = 2.0e9
#: beyond this the host issues into a running GPU, which CUPTI does not mind and events would show
HEAD_START_MOST_S = 0.5
#: of a trial, to learn how long calls take
_TRIAL_S, _TRIAL_CALLS = 0.05, 32

Outputs = tuple[Any, ...]
Call = Callable[[], Outputs]


class CannotTimeError(Exception):
    """This timer cannot time this load here; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """One case, ready to be called: a call over each of its sets, to be taken in turn.

    `flush` is called before every call, where the sets do not outrun the L2; its time is not the call's.
    """

    calls: Sequence[Call]
    flush: Callable[[], object] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one call, roughly: on the GPU, and for the host to issue it."""

    gpu_s: float
    issue_s: float


class Timer(Protocol):
    """Times one load. What constructs it raises CannotTimeError where it cannot."""

    name: TimerName
    #: the tensors that the last timed call returned, for the check, and the set that it was over
    outputs: Outputs
    last: int

    def samples(self, poll: Callable[[], object]) -> list[float]:
        """GPU seconds a call of one batch of calls, none or more; `poll` is called while the GPU works."""


def head_start(torch: Any, seconds: float) -> None:
    """Keep the GPU busy, touching no memory, until what follows is in the queue."""
    torch.cuda._sleep(int(SPIN_HZ * min(seconds, HEAD_START_MOST_S)))


def fence(torch: Any) -> None:
    """An empty kernel of a known name, over which no call with programmatic dependencies starts early."""
    torch.cuda._sleep(0)


#: what the fence and the head start are called in a trace
FENCE_KERNEL = "spin_kernel"


def pace(torch: Any, load: Load) -> Pace:
    """From a short trial by events, after each call was made once: modules load and handles are made then."""
    for call in load.calls:
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    load.calls[0]()
    torch.cuda.synchronize()
    once = time.perf_counter() - began
    count = max(1, min(_TRIAL_CALLS, int(_TRIAL_S / once)))
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    head_start(torch, 2 * once * count)
    start.record()
    began = time.perf_counter()
    for turn in range(count):
        load.calls[turn % len(load.calls)]()
    issue = time.perf_counter() - began
    end.record()
    end.synchronize()
    return Pace(gpu_s=max(1e-7, start.elapsed_time(end) / 1e3 / count), issue_s=issue / count)


def whole_turns(calls: int, sets: int, most: int) -> int:
    """How many calls to make: about `calls`, at most about `most`, each of `sets` sets equally often.

    A batch that ended within a turn would let the next one find sets in the L2 that it should not.
    """
    return sets * max(1, min(-(-calls // sets), most // sets))
