"""A measured time against what its hardware allows. Seconds, FLOP, bytes in; the metrics of the pages out."""

from __future__ import annotations

import dataclasses
from typing import Literal

from benchapp.catalog.models import Target
from workers.bench import hardware, roofline

MetricName = Literal["tflops", "peak", "roofline", "us", "gbs"]


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    title: str
    unit: str
    #: shares of a peak are drawn against 100
    is_share: bool = False


METRICS: dict[str, Metric] = {
    "tflops": Metric("Throughput", "TFLOP/s"),
    "peak": Metric("Share of dense peak", "%", is_share=True),
    "roofline": Metric("Share of roofline", "%", is_share=True),
    "us": Metric("Time per call", "µs"),
    "gbs": Metric("Compulsory traffic", "GB/s"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Ceiling:
    """What a device allows for one dtype: dense peak in FLOP/s at `clock_mhz`, bandwidth in bytes/s."""

    model: str
    peak: float
    clock_mhz: float
    bandwidth: float

    def roofline_time(self, flops: float, moved: float) -> float:
        return roofline.roofline_time(flops, self.peak, moved, self.bandwidth)

    def bound_by(self, flops: float, moved: float) -> str:
        return roofline.bound_by(flops, self.peak, moved, self.bandwidth)


def ceiling(target: Target, dtype: str) -> Ceiling | None:
    """The datasheet's ceiling for inputs of `dtype`; None where the device or its rate is not known."""
    model = hardware.lookup(target.model)
    if model is None or dtype not in roofline.RATE_OF_FORMAT:
        return None
    rate = roofline.rate_of(dtype, dtype)
    peak, clock = model.dense_peak(rate), model.clock_for(rate)
    if peak is None or clock is None:
        return None
    return Ceiling(model.name, peak, clock, model.bandwidth)


def why_no_ceiling(target: Target, dtype: str) -> str:
    """One sentence in place of a share that cannot be stated."""
    if target.kind == Target.Kind.CPU:
        return "No datasheet peak is known for this CPU, so there is no share of peak or roofline."
    if hardware.lookup(target.model) is None:
        return f"No datasheet peak is known for {target}, so there is no share of peak or roofline."
    return f"No {dtype} peak is known for {target}, so there is no share of peak or roofline."


def value(
    metric: str, seconds: float | None, flops: float | None, moved: float | None, limit: Ceiling | None
) -> float | None:
    """`seconds` a call as `metric`; None where what it needs is not known. Shares are in percent.

    `flops` and `moved` are the compulsory work of one call, the latter in bytes.
    """
    if not seconds or seconds < 0:
        return None
    if metric == "us":
        return seconds * 1e6
    if metric == "gbs":
        return None if moved is None else moved / seconds / 1e9
    if flops is None:
        return None
    if metric == "tflops":
        return flops / seconds / 1e12
    if limit is None:
        return None
    if metric == "peak":
        return 100 * roofline.share(flops / seconds, limit.peak)
    return None if moved is None else 100 * roofline.share(limit.roofline_time(flops, moved), seconds)
