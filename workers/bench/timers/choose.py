"""Which timer times a load: CUPTI, else a graph, else events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workers.bench.document import GPU_TIMERS
from workers.bench.document import Timer as TimerName
from workers.bench.timers.base import CannotTimeError, Load, Pace, Timer
from workers.bench.timers.cupti import Cupti, cupti_trace
from workers.bench.timers.events import Events
from workers.bench.timers.graph import Graph


def make(torch: Any, name: TimerName, load: Load, pace: Pace, overheads: Mapping[str, float]) -> Timer:
    """The timer of that name over `load`; `overheads` as of `calibrate`. Raises CannotTimeError."""
    makers: dict[str, Callable[[], Timer]] = {
        "cupti": lambda: Cupti(torch, load, pace, cupti_trace()),
        "cuda_graph": lambda: Graph(torch, load, pace, overheads.get("cuda_graph", 0.0)),
        "cuda_events": lambda: Events(torch, load, pace, overheads.get("cuda_events", 0.0)),
    }
    return makers[name]()


def after(name: TimerName | None) -> tuple[TimerName, ...]:
    """The timers to try, in order: all of them, or the one asked for and those that stand in for it."""
    return GPU_TIMERS if name is None else GPU_TIMERS[GPU_TIMERS.index(name) :]


def first(
    torch: Any, names: tuple[TimerName, ...], load: Load, pace: Pace, overheads: Mapping[str, float]
) -> Timer:
    """The first of `names` that times `load`, proven by one batch. Raises CannotTimeError where none does."""
    why: list[str] = []
    for name in names:
        try:
            timer = make(torch, name, load, pace, overheads)
            timer.samples(lambda: None)
        except CannotTimeError as error:
            why.append(str(error))
        else:
            return timer
    raise CannotTimeError(" ".join(why))
