"""What a GPU allows for a step, from its data sheet. Pure but for the target's row."""

from __future__ import annotations

import dataclasses

from benchapp.catalog.models import Target
from workers.bench import hardware, roofline


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """Dense peak in FLOP/s at `clock_mhz`, bandwidth in bytes/s, both of one GPU."""

    model: str
    rate: str
    peak: float
    clock_mhz: float
    bandwidth: float

    def roofline_time(self, flops: float, moved: float) -> float:
        return roofline.roofline_time(flops, self.peak, moved, self.bandwidth)

    def bound_by(self, flops: float, moved: float) -> str:
        return roofline.bound_by(flops, self.peak, moved, self.bandwidth)

    def __str__(self) -> str:
        return (
            f"{self.model}: {self.bandwidth / 1e12:,.2f} TB/s, {self.rate} dense peak "
            f"{self.peak / 1e12:,.0f} TFLOP/s at {self.clock_mhz:,.0f} MHz"
        )


def limit_of(target: Target, dtype: str) -> Limit | None:
    """None where no peak of the format is known for the target."""
    model = hardware.lookup(target.model)
    rate = roofline.RATE_OF_FORMAT.get(dtype)
    if model is None or rate is None:
        return None
    peak, clock = model.dense_peak(rate), model.clock_for(rate)
    return None if peak is None or clock is None else Limit(model.name, rate, peak, clock, model.bandwidth)
