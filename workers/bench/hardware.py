"""GPU models as data: what peaks and bounds are computed from.

The figures, their sources and what is unverified stand in `hardware.json` beside this file. None
means not known; nothing here guesses.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

from workers.bench import roofline

DATA = Path(__file__).with_name("hardware.json")


@dataclasses.dataclass(frozen=True, slots=True)
class GpuModel:
    """One product. Clocks in MHz, bandwidth in TB/s (10^12 bytes), L2 in MiB, memory in GiB."""

    name: str
    #: what NVML and torch call it, without the leading "NVIDIA "
    device_names: tuple[str, ...]
    compute_capability: str
    sm_count: int | None
    clock_mhz: float | None
    flop_per_clk_per_sm_dense: dict[str, float | None]
    memory_gib: float
    bandwidth_tb_s: float
    l2_mib: float | None
    smem_optin_bytes: int
    tdp_w: float
    source: str
    published_dense_tflops: dict[str, float]
    notes: str = ""
    #: highest clock seen on a device, where it exceeds the datasheet's
    max_clock_mhz: float | None = None
    #: rates whose published peak was stated at another clock than `clock_mhz`
    clock_mhz_by_dtype: dict[str, float] = dataclasses.field(default_factory=dict)
    #: rates whose 2:4 sparse peak is not twice the dense one
    sparse_factor: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def arch(self) -> str:
        """The compute capability as "sm120"."""
        return "sm" + self.compute_capability.replace(".", "")

    @property
    def bandwidth(self) -> float:
        """Datasheet memory bandwidth in bytes/s."""
        return self.bandwidth_tb_s * 1e12

    @property
    def l2_bytes(self) -> int | None:
        return None if self.l2_mib is None else int(self.l2_mib * 1024**2)

    def clock_for(self, rate: str) -> float | None:
        """The clock in MHz at which the datasheet states the peak of `rate`."""
        return self.clock_mhz_by_dtype.get(rate, self.clock_mhz)

    def dense_peak(self, rate: str, clock_mhz: float | None = None) -> float | None:
        """Dense peak of `rate` ("bf16", "fp8", "fp4" …) in FLOP/s at `clock_mhz`, or at the datasheet clock.

        None where the SM count, the clock or the rate is not known.
        """
        clock = clock_mhz if clock_mhz is not None else self.clock_for(rate)
        per_clock = self.flop_per_clk_per_sm_dense.get(rate)
        if self.sm_count is None or clock is None or per_clock is None:
            return None
        return roofline.dense_peak(self.sm_count, clock, per_clock)

    def highest_peak(self, rate: str | None, seen_mhz: float | None = None) -> float | None:
        """Dense peak of `rate` in FLOP/s at the highest clock known: the datasheet's, or one seen.

        None for no rate, and where the SM count, every clock or the rate is not known.
        """
        clocks = [clock for clock in (seen_mhz, self.max_clock_mhz, self.clock_mhz) if clock is not None]
        return self.dense_peak(rate, max(clocks)) if rate is not None and clocks else None

    def sparse_peak(self, rate: str, clock_mhz: float | None = None) -> float | None:
        """Peak of `rate` with 2:4 sparsity in FLOP/s; None where the dense one is not known."""
        dense = self.dense_peak(rate, clock_mhz)
        return None if dense is None else roofline.sparse_peak(dense, self.sparse_factor.get(rate, 2.0))


@functools.cache
def models() -> tuple[GpuModel, ...]:
    """Every GPU model in the data file, in its order."""
    rows = json.loads(DATA.read_text(encoding="utf-8"))["gpus"]
    return tuple(GpuModel(**{**row, "device_names": tuple(row["device_names"])}) for row in rows)


@functools.cache
def lookup(device_name: str | None) -> GpuModel | None:
    """The model behind a device's own name ("NVIDIA H200") or ours ("H200 SXM"); None when unknown.

    Only whole names count: "NVIDIA H200 NVL" is another product with another power limit.
    """
    if not device_name:
        return None
    wanted = " ".join(device_name.casefold().split()).removeprefix("nvidia ")
    for model in models():
        if wanted in (name.casefold() for name in (model.name, *model.device_names)):
            return model
    return None
