"""One measurement, ready to be drawn. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from benchapp.trends.utilisation import Ceiling, value
from workers.bench import roofline
from workers.bench.backends import library_of
from workers.bench.cases.parse import KINDS

TIMERS = {
    "cupti": "CUPTI",
    "cuda_graph": "CUDA graph",
    "cuda_events": "CUDA events",
    "wall_clock": "wall clock",
}
#: Flags that tell where a point is from; the others tell how it was measured.
ORIGINS = frozenset({"imported", "borrowed"})

Triple = tuple[float | None, float | None, float | None]
NOTHING: Triple = (None, None, None)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One measurement. Times in seconds a call; `mark` is empty where it may rank as a speed."""

    kind: str
    size: int | None
    #: what tells it apart where it has no size: "timer cupti"
    name: str
    dtype: str
    backend: str
    configuration: str
    version: str
    measured_at: dt.datetime
    outcome: str
    flags: tuple[str, ...]
    #: median and quartiles, of the GPU and of the host
    time: Triple
    host: Triple
    n: int
    timer: str
    l2_policy: str
    #: None of work that no peak is stated for
    flops: float | None
    moved: float | None
    limit: Ceiling | None
    clock_mhz: float | None
    floor: float | None
    calls: int
    params: Mapping[str, Any]
    mark: str
    remark: str
    href: str
    source: str
    origin: str
    #: the address that asks for the same again; "" where it cannot be measured here
    again: str

    @property
    def is_untrue(self) -> bool:
        """Whether its time stands for no work done: of a wrong result, or below what the hardware allows."""
        return self.outcome == "incorrect" or "impossible" in self.flags

    @property
    def median(self) -> float | None:
        return self.time[0]

    def at(self, metric: str) -> float | None:
        """The median as `metric`; None where it may not rank as a speed."""
        return self._of(metric, 0)

    def interval(self, metric: str) -> tuple[float, float] | None:
        """The quartiles as `metric`; a shorter time is a higher rate, so that the ends may swap."""
        ends = [end for at in (1, 2) if (end := self._of(metric, at)) is not None]
        return (min(ends), max(ends)) if len(ends) == 2 else None

    def _of(self, metric: str, which: int) -> float | None:
        if self.mark:
            return None
        seconds = (self.host if metric == "host" else self.time)[which]
        return value(
            metric,
            seconds,
            self.flops,
            self.moved,
            self.limit,
            clock_mhz=self.clock_mhz,
            floor=self.floor,
            calls=self.calls,
        )

    @property
    def intensity(self) -> float | None:
        """FLOP a byte of compulsory traffic."""
        return self.flops / self.moved if self.flops and self.moved else None

    @property
    def above_roofline(self) -> bool:
        """Whether it is faster than the cold roofline and yet ranks: its operands lay in L2."""
        if self.mark or self.median is None or self.limit is None or self.moved is None:
            return False
        best = self.limit.roofline_time(self.flops, self.moved)
        return roofline.standing(time=self.median, roofline=best, hard_bound=None) == "above_roofline"

    @property
    def flag_words(self) -> list[str]:
        said = [flag.replace("_", " ") for flag in self.flags]
        return [*said, roofline.STANDING_WORDS["above_roofline"]] if self.above_roofline else said

    @property
    def caution(self) -> list[str]:
        """The flags that say how it was measured, as the chart rings it."""
        return [flag.replace("_", " ") for flag in self.flags if flag not in ORIGINS]

    @property
    def borrowed(self) -> bool:
        return "borrowed" in self.flags

    @property
    def bound_by(self) -> str:
        return "" if self.limit is None or self.moved is None else self.limit.bound_by(self.flops, self.moved)

    @property
    def library(self) -> str:
        """cuBLAS or cuDNN where that is what computes."""
        return library_of(self.backend) or ""

    @property
    def where(self) -> str:
        """ "M = 16", or what else names its case."""
        return self.name if self.size is None else f"{size_name(self.kind)}\u00a0=\u00a0{self.size:,}"


#: What a sweep varies, on an axis and in a sentence, by the parameter's name.
SIZES = {
    "m": ("M", "M (rows of A: tokens in the batch)"),
    "tokens": ("tokens", "Tokens in the batch"),
    "batch": ("batch", "Sequences in the batch"),
    "context": ("context", "Tokens of context a sequence"),
    "bytes": ("bytes", "Bytes copied"),
}
KIND_NAMES = {
    "gemm": "GEMM",
    "grouped_gemm": "Grouped GEMM",
    "rmsnorm": "RMSNorm",
    "rope": "RoPE",
    "silu_and_mul": "SiLU and multiply",
    "moe": "MoE",
}


def size_name(kind: str) -> str:
    return SIZES.get(sweep_of(kind), (sweep_of(kind), ""))[0]


def size_title(kind: str) -> str:
    return SIZES.get(sweep_of(kind), ("", sweep_of(kind)))[1]


def kind_name(kind: str) -> str:
    return KIND_NAMES.get(kind) or kind.replace("_", " ").capitalize()


def shape_name(shape: str) -> str:
    """A shape for people: 4096×7168, or hidden 7168, groups 8."""
    if "=" in shape:
        return shape.replace("=", "\u00a0").replace(",", ", ").replace("_", " ")
    return shape.replace("x", "×")


def sweep_of(kind: str) -> str:
    """The parameter that a sweep over cases of a kind varies."""
    return str(KINDS[kind].sweep) if kind in KINDS else "m"
