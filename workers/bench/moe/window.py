"""Timed steps: hundreds of them in a row on every rank, between two moments at which all ranks are idle."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from workers.bench import timing
from workers.bench.document import Flag, Readings, now
from workers.bench.gemm import nvidia
from workers.bench.moe.device import Device, Watch, mean_power
from workers.bench.moe.ranks import Ranks

#: however slow they are
LEAST_STEPS = 5
#: of untimed steps of the same load, where there is no other limit: a power cap takes some tenths of a second
#: to set the clock
WARM_UP_S = 1.5
#: untimed steps before the pace is taken, and those by which it is
_FIRST, _TRIAL = 3, 3


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """What the steps of this rank took, and what all ranks together did: `window_s`, `power_w`,
    `peak_bytes` and `rank_medians` are of all."""

    measured_at: str
    samples: list[float]
    window_s: float
    rank_medians: tuple[float, ...]
    peak_bytes: int
    power_w: float | None
    readings: Readings | None
    flags: tuple[Flag, ...]

    @property
    def steps(self) -> int:
        return len(self.samples)


def warm_up(
    step: Callable[[], Any], device: Device, ranks: Ranks, most: int, for_s: float = math.inf
) -> float:
    """`most` steps, one at least, or as many as take about `for_s`; seconds of one, on the slowest rank.
    Every rank makes equally many."""

    def pace(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        device.wait()
        return float(max(ranks.gather((time.perf_counter() - began) / steps)))

    first = max(1, min(_FIRST, most))
    seen = pace(first)
    trial = min(_TRIAL, most - first)
    if trial:
        seen = pace(trial)
    rest = int(min(most - first - trial, for_s / seen))
    return pace(rest) if rest else seen


def count(pace_s: float, steps: int, seconds: float) -> int:
    """How many steps to time: `steps`, but not for longer than `seconds` of about `pace_s` each."""
    return max(LEAST_STEPS, min(steps, int(seconds / max(pace_s, 1e-9))))


def measure(step: Callable[[], Any], steps: int, device: Device, ranks: Ranks) -> Window:
    """Every rank makes `steps` steps and waits for none of them until the last."""
    measured_at = now()
    device.wait()
    device.begin_peak()
    with Watch(device.source()) as watch:
        ranks.wait()
        began = time.perf_counter()
        stamps = [device.stamp()]
        for _ in range(steps):
            step()
            stamps.append(device.stamp())
        device.wait()
        spent = time.perf_counter() - began
    samples = device.between(stamps)
    readings = nvidia.summarise(watch.readings)
    own = {
        "spent": spent,
        "median": timing.summarise(samples).median,
        "peak": device.peak_bytes(),
        "power": mean_power(watch.readings),
        "flags": nvidia.flags(readings, device.source().sharers()),
    }
    every = ranks.gather(own)
    powers = [each["power"] for each in every]
    flags: list[Flag] = list(dict.fromkeys(flag for each in every for flag in each["flags"]))
    if timing.is_short(samples):
        flags.append("few_samples")
    return Window(
        measured_at=measured_at,
        samples=samples,
        window_s=max(each["spent"] for each in every),
        rank_medians=tuple(each["median"] for each in every),
        peak_bytes=max(each["peak"] for each in every),
        power_w=None if None in powers else sum(powers),
        readings=readings,
        flags=tuple(flags),
    )
