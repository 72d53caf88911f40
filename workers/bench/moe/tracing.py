"""Where the time of a step goes: steps under torch's profiler, on one rank. Needs torch.

A graph's kernels do not tell which part launched them. So the step is traced twice: launched kernel by
kernel, with parts marked, and replayed, which is what is timed; equal orders of names carry the parts over.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workers.bench.decoder import marks
from workers.bench.document import Part
from workers.bench.experts.base import Backend
from workers.bench.moe import path, reading
from workers.bench.moe.kernels import Launched, align, library_of, refined
from workers.bench.timers.spans import Record, dominant

#: traced steps; the first gives no time, since clocks and queues settle, nor the last, which has no successor
LAUNCHED, REPLAYED, ON_CPU = 4, 10, 5
_SETTLING = 1
#: kinds of activity that are work of the GPU
_WORK = {"kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset"}


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """Of one step, in seconds; the fields of `document.Step` by the same names. `layer_s` is the time from
    one layer with experts to the next, `kernel` the name of the kernel that takes most."""

    parts: dict[Part, float]
    libraries: dict[str, float]
    traced_s: float
    overlap_s: float
    kernels: int | None
    layer_s: float | None
    kernel: str | None


Steps = list[list[reading.Kernel]]


def launched(torch: Any, step: Callable[[], Any], profiled: bool) -> Steps:
    """Kernels of each of LAUNCHED steps, with the parts that launched them."""
    step()
    return reading.kernels(_events(torch, step, LAUNCHED, profiled, on_gpu=True))


def replayed(torch: Any, step: Callable[[], Any], profiled: bool) -> Steps:
    """Kernels of each of REPLAYED steps."""
    for _ in range(2):
        step()
    return reading.kernels(_events(torch, step, REPLAYED, profiled, on_gpu=True))


def of_launches(steps: Steps, experts: Backend, name: str, layers: int) -> Trace:
    """Of steps that no graph replays. Raises ValueError of a trace that tells of no kernels."""
    return _of(steps, [_parts(step, experts) for step in steps], name, layers)


def of_replays(eager: Steps, replays: Steps, experts: Backend, name: str, layers: int) -> Trace:
    """Of replayed steps, their parts from the last one launched. Raises ValueError as `of_launches`."""
    if not eager or not eager[-1]:
        raise ValueError("The trace of launches tells of no kernels.")
    parts = _parts(eager[-1], experts)
    known = [Launched(each.name, part) for each, part in zip(eager[-1], parts, strict=True)]
    return _of(replays, [align([each.name for each in step], known) for step in replays], name, layers)


def on_cpu(torch: Any, step: Callable[[], Any], profiled: bool, layers: int) -> Trace | None:
    """Of a CPU's steps: the time in each part's range. None on a rank that is not `profiled`."""
    events = _events(torch, step, ON_CPU, profiled, on_gpu=False)
    if not profiled:
        return None
    taken = []
    for begin, end, ranges in reading.marked(events):
        pieces = path.innermost(ranges, begin, end)
        taken.append((path.take_apart(pieces, begin, end), pieces))
    step_, pieces = _middle(taken)
    return Trace(
        path.seconds(step_.parts),
        path.seconds(step_.libraries),
        step_.total / path.NS,
        step_.hidden / path.NS,
        None,
        path.layer_time(pieces, layers),
        None,
    )


def _parts(step: Sequence[reading.Kernel], experts: Backend) -> list[Part]:
    return refined(((each.name, each.part) for each in step), experts.part_of)


def _of(steps: Steps, parts: Sequence[Sequence[Part]], name: str, layers: int) -> Trace:
    attention, _, experts = name.partition("+")
    around = {"attention": attention}
    taken = []
    for index in range(_SETTLING, len(steps) - 1):
        if not steps[index] or not steps[index + 1]:
            continue
        pieces = [
            path.Piece(
                each.start,
                each.end,
                part,
                library_of(each.name, around.get(part, experts.partition(".")[0])),
                each.name,
            )
            for each, part in zip(steps[index], parts[index], strict=True)
        ]
        begin, end = steps[index][0].start, steps[index + 1][0].start
        taken.append((path.take_apart(pieces, begin, end), pieces))
    if not taken:
        raise ValueError("The trace tells of no kernels.")
    step, pieces = _middle(taken)
    return Trace(
        path.seconds(step.parts),
        path.seconds(step.libraries),
        step.total / path.NS,
        step.hidden / path.NS,
        step.kernels,
        path.layer_time(pieces, layers),
        dominant(Record(each.start, each.end, each.name) for each in pieces),
    )


def _middle(taken: list[tuple[path.Taken, list[path.Piece]]]) -> tuple[path.Taken, list[path.Piece]]:
    """The step of median length."""
    return sorted(taken, key=lambda each: each[0].total)[(len(taken) - 1) // 2]


def _events(
    torch: Any, step: Callable[[], Any], count: int, profiled: bool, *, on_gpu: bool
) -> list[reading.Event]:
    """`count` steps in a row, and what the profiler tells of them; nothing where it is another rank's."""
    if not profiled:
        for _ in range(count):
            step()
        return []
    profiler = torch.profiler
    kinds = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.CUDA] if on_gpu else [])]
    with _marks(), profiler.profile(activities=kinds) as profile:
        for _ in range(count):
            with profiler.record_function(reading.STEP):
                step()
        if on_gpu:
            torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    return [_event(each, each.device_type() == cuda) for each in profile.profiler.kineto_results.events()]


def _event(told: Any, on_gpu: bool) -> reading.Event:
    name = told.name()
    if on_gpu:
        # Before activity_type, a range's shadow on the GPU is known by its name alone.
        kind = told.activity_type() if hasattr(told, "activity_type") else None
        shadow = name == reading.STEP or name.startswith((marks.PREFIX, "nccl:", "gloo:"))
        marked = shadow if kind is None else kind not in _WORK
    else:
        marked = name == reading.STEP or name.startswith(marks.PREFIX)
    begin = told.start_ns()
    return reading.Event(name, begin, begin + told.duration_ns(), on_gpu, marked, told.correlation_id())


@contextlib.contextmanager
def _marks() -> Iterator[None]:
    marks.trace(True)
    try:
        yield
    finally:
        marks.trace(False)
