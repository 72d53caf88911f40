"""A measured time against what its hardware allows. Seconds, FLOP, bytes in; the metrics of the pages out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchapp.catalog.models import Target
from workers.bench import hardware, roofline
from workers.bench.cases.parse import work_of


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    title: str
    unit: str
    #: what a filter calls it
    label: str
    #: shares of a peak are drawn against 100
    is_share: bool = False
    #: means something only for work that a peak is stated for
    needs_rate: bool = False
    #: what 100 % is, on a chart
    whole: str = ""


METRICS: dict[str, Metric] = {
    "tflops": Metric("Throughput", "TFLOP/s", "TFLOP/s", needs_rate=True),
    "peak": Metric("Share of dense peak", "%", "% of dense peak", True, True, "dense peak"),
    "peak_measured": Metric(
        "Share of dense peak at the clock measured",
        "%",
        "% of dense peak, clock measured",
        True,
        True,
        "dense peak at the clock measured",
    ),
    "sparse": Metric("Share of 2:4 sparse peak", "%", "% of sparse peak", True, True, "sparse peak"),
    "roofline": Metric("Share of roofline", "%", "% of roofline", True, whole="roofline"),
    "bandwidth": Metric("Share of bandwidth", "%", "% of bandwidth", True, whole="bandwidth"),
    "gbs": Metric("Compulsory traffic", "GB/s", "GB/s"),
    "recoverable": Metric("Recoverable time", "µs", "recoverable µs"),
    "us": Metric("Time per call", "µs", "µs"),
    "host": Metric("Host time per call", "µs", "host µs"),
}

#: Kinds of cases that bandwidth alone bounds: no peak is stated for their arithmetic.
UNRATED = frozenset(
    ("decode_attention", "rmsnorm", "silu_and_mul", "quantize", "rope", "sampling", "copy", "empty_kernel")
)


@dataclasses.dataclass(frozen=True, slots=True)
class Ceiling:
    """What a device allows for one kind of work: dense and 2:4 sparse peak in FLOP/s at `clock_mhz`,
    bandwidth in bytes/s. Peaks are None for work that bandwidth alone bounds."""

    model: str
    peak: float | None
    clock_mhz: float | None
    bandwidth: float
    sparse: float | None = None
    rate: str = ""

    def roofline_time(self, flops: float | None, moved: float) -> float:
        if self.peak is None or flops is None:
            return moved / self.bandwidth
        return roofline.roofline_time(flops, self.peak, moved, self.bandwidth)

    def bound_by(self, flops: float | None, moved: float) -> str:
        if self.peak is None or flops is None:
            return "memory"
        return roofline.bound_by(flops, self.peak, moved, self.bandwidth)


def ceiling_at(target: Target, rate: str | None) -> Ceiling | None:
    """The ceiling at a tensor-core rate ("bf16", "fp8" …), of bandwidth alone without one."""
    model = hardware.lookup(target.model)
    if model is None:
        return None
    if rate is None:
        return Ceiling(model.name, None, None, model.bandwidth)
    peak, clock = model.dense_peak(rate), model.clock_for(rate)
    if peak is None or clock is None:
        return None
    return Ceiling(model.name, peak, clock, model.bandwidth, model.sparse_peak(rate), rate)


def why_no_ceiling(target: Target, dtype: str) -> str:
    """One sentence in place of a share that cannot be stated."""
    if target.kind == Target.Kind.CPU:
        return "No datasheet peak is known for this CPU, so there is no share of peak or roofline."
    if hardware.lookup(target.model) is None:
        return f"No datasheet peak is known for {target}, so there is no share of peak or roofline."
    return f"No {dtype or 'such'} peak is known for {target}, so there is no share of peak or roofline."


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """The work of one call as it is held against a ceiling: that of its rate, or of bandwidth alone.

    `flops` is None for work that no peak is stated for.
    """

    rate: str | None
    flops: float | None
    moved: float | None
    #: whether it is known which ceiling that is
    known: bool

    def ceiling(self, target: Target) -> Ceiling | None:
        return ceiling_at(target, self.rate) if self.known else None


def counted(kind: str, params: Mapping[str, Any], flops: float | None, moved: float | None) -> Counted:
    """The work of a case: FLOP and bytes that its measurement tells, else those that its parameters say."""
    work = work_of(kind, params)
    rated = kind not in UNRATED if work is None else work.rate is not None
    if work is not None:
        flops = work.flops if flops is None else flops
        moved = work.bytes if moved is None else moved
    return Counted(
        rate=work.rate if work else None,
        flops=flops if rated else None,
        moved=moved or None,
        known=work is not None or not rated,
    )


def value(
    metric: str,
    seconds: float | None,
    flops: float | None,
    moved: float | None,
    limit: Ceiling | None,
    *,
    clock_mhz: float | None = None,
    floor: float | None = None,
    calls: int = 1,
) -> float | None:
    """`seconds` a call as `metric`; None where what it needs is not known. Shares are in percent.

    `flops` and `moved` are the compulsory work of one call, the latter in bytes; `flops` None for work that
    has no peak. `clock_mhz` is the SM clock of the measurement, `floor` the launch floor in seconds (None
    where none was measured: recoverable time is then counted from the roofline alone), `calls` a decode
    step's. "host" is for host seconds.
    """
    if not seconds or seconds < 0:
        return None
    if metric in ("us", "host"):
        return seconds * 1e6
    if metric == "gbs":
        return None if moved is None else moved / seconds / 1e9
    if metric == "tflops":
        return None if flops is None else flops / seconds / 1e12
    if limit is None:
        return None
    if metric in ("peak", "peak_measured", "sparse"):
        peak = _peak(metric, limit, clock_mhz)
        return None if peak is None or flops is None else 100 * roofline.share(flops / seconds, peak)
    if moved is None:
        return None
    if metric == "bandwidth":
        return 100 * roofline.share(moved / seconds, limit.bandwidth)
    best = limit.roofline_time(flops, moved)
    if metric == "recoverable":
        return roofline.recoverable_time(seconds, best, floor or 0.0, calls) * 1e6
    return 100 * roofline.share(best, seconds)


def _peak(metric: str, limit: Ceiling, clock_mhz: float | None) -> float | None:
    if metric == "sparse":
        return limit.sparse
    if metric == "peak" or limit.peak is None:
        return limit.peak
    if clock_mhz is None or clock_mhz < 1 or not limit.clock_mhz:  # below 1 MHz it is no clock
        return None
    return limit.peak * clock_mhz / limit.clock_mhz
