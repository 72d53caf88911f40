"""One measurement of a model's steps, ready to be shown."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from benchapp.moe.limits import Limit
from benchapp.moe.newest import GLYPHS
from benchapp.runs import steps
from workers.bench.cases.model import Decode, Prefill
from workers.bench.document import Step

#: What a stack is called by: its own library before what it lies on.
LIBRARIES = ("flashinfer", "vllm", "sglang", "tensorrt-llm", "sgl-kernel", "torch")


def version_of(stack: Mapping[str, Any]) -> str:
    """The version that a row is about: FlashInfer's, of a stack without it "torch 2.13.0"."""
    name = next((name for name in LIBRARIES if name in stack), "")
    if name == "flashinfer":
        return str(stack[name])
    return f"{name} {stack[name]}" if name else "unknown"


def layout_words(tp: int, ep: int) -> str:
    """ "1 GPU", "TP 2", "TP 2 × EP 4"."""
    said = [f"{name}\u00a0{size}" for name, size in (("TP", tp), ("EP", ep)) if size > 1]
    return " × ".join(said) or "1\u00a0GPU"


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One measurement. Times in seconds a step; `mark` is empty where it may rank as a speed."""

    case: Decode | Prefill
    backend: str
    configuration: str
    place: str
    target: int
    version: str
    stack: Mapping[str, Any]
    measurement: int
    measured_at: dt.datetime
    outcome: str
    flags: tuple[str, ...]
    mark: str
    remark: str
    n: int
    timer: str
    #: median and quartiles of a step
    time: tuple[float, float, float] | None
    step: Step | None
    #: compulsory work of one step on one GPU
    flops: float | None
    moved: float | None
    limit: Limit | None
    #: seconds of an empty kernel
    floor: float | None
    href: str
    source: str
    origin: str

    @property
    def ranked(self) -> Step | None:
        """The step where its figures may stand as speeds."""
        return None if self.mark else self.step

    @property
    def gpus(self) -> int:
        return self.case.tp * self.case.ep

    @property
    def layout(self) -> str:
        return layout_words(self.case.tp, self.case.ep)

    @property
    def glyph(self) -> str:
        return GLYPHS.get(self.mark, "")

    @property
    def rate(self) -> float | None:
        """tok/s of all GPUs; projected of a slice."""
        return steps.rate(self.ranked) if self.ranked else None

    @property
    def per_gpu(self) -> float | None:
        return steps.per_gpu(self.ranked) if self.ranked else None

    @property
    def per_watt(self) -> float | None:
        return steps.per_watt(self.ranked) if self.ranked else None

    @property
    def tpot(self) -> float | None:
        """Seconds of one step: the median, of a slice the projected step."""
        if self.ranked is None or self.time is None:
            return None
        return self.time[0] if self.ranked.projected_s is None else self.ranked.projected_s

    @property
    def per_user(self) -> float | None:
        """Tokens a second that one sequence sees: 1 / TPOT. A prefill makes none."""
        return 1 / self.tpot if self.tpot and self.case.kind == "decode" else None

    @property
    def window(self) -> str:
        return steps.window_words(self.case.kind, self.step) if self.step else ""

    @property
    def sliced(self) -> str:
        return steps.layers_words(self.step) if self.step else ""

    @property
    def projection(self) -> str:
        """How a slice's whole step was reckoned: it differs from batch to batch."""
        told = self.step.left_out if self.step else ()
        return next((said for said in told if self.sliced and said.startswith(self.sliced)), "")

    @property
    def left_out(self) -> list[str]:
        """What every figure is without."""
        return [said for said in self.step.left_out if said != self.projection] if self.step else []

    @property
    def roofline_s(self) -> float | None:
        """Roofline time of the layers measured; None where work or peaks are not known."""
        if self.limit is None or not self.flops or not self.moved:
            return None
        return self.limit.roofline_time(self.flops, self.moved)

    @property
    def bound_by(self) -> str:
        return self.limit.bound_by(self.flops, self.moved) if self.limit and self.flops and self.moved else ""

    @property
    def share(self) -> float | None:
        """Roofline time over the median step, both of the layers measured."""
        return self._share(self.roofline_s)

    @property
    def share_with_launches(self) -> float | None:
        """The same where every kernel of the step also costs an empty kernel's time."""
        launches = self.launches_s
        return (
            None if self.roofline_s is None or launches is None else self._share(self.roofline_s + launches)
        )

    @property
    def launches_s(self) -> float | None:
        if self.step is None or self.step.kernels is None or self.floor is None:
            return None
        return self.step.kernels * self.floor

    def _share(self, ideal: float | None) -> float | None:
        if ideal is None or self.mark or self.time is None:
            return None
        return ideal / self.time[0]
