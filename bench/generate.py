"""Documents that look like a year and a half of nightly work, from a seed.

Nothing in them was measured: models, hosts, architectures, versions and commands all say "generated",
so that no figure of theirs can be taken for one. The same arguments give the same bytes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import random
from collections.abc import Iterator

from workers.bench import roofline
from workers.bench.document import Correctness, Document, Measurement, Outcome, Readings, Statistics, Target

#: In every name and version below, and the name under which these documents stand in the inbox.
NAME = "generated"
COMMAND = (NAME, "python", "-m", "bench", "fill")

START = dt.datetime(2025, 1, 6, 2, tzinfo=dt.UTC)
PERIOD = dt.timedelta(days=540)
SECONDS_A_CASE = 2
#: One more than a multiple of four: the quartiles are samples.
SAMPLES = 9

EXTENTS_OF_M = tuple(2**power for power in range(13))
SHAPES = tuple(itertools.product((2048, 4096, 6144, 7168), (2048, 4096, 6144, 7168)))
BACKENDS = (("bf16", "torch.mm"), ("fp8", "cutlass"), ("nvfp4", "cutlass"), ("nvfp4", "cudnn"))
#: The release that a night ran on advances with the months: (torch, flashinfer).
STACKS = tuple(
    (f"2.{minor}.{patch}+{NAME}", f"0.{minor}.{patch}+{NAME}") for minor in (5, 6, 7) for patch in range(4)
)
LAUNCH_FLOOR = 3e-6
#: Of a thousand measurements, how many end otherwise than ok.
TROUBLES: dict[Outcome, int] = {"incorrect": 3, "launch_failed": 2, "timeout": 1, "oom": 2, "unverified": 5}


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """Invented hardware: dense FLOP/s by dtype, bytes/s."""

    target: Target
    peaks: dict[str, float]
    bandwidth: float

    def ideal(self, case: Case) -> float:
        """Roofline time in seconds."""
        peak = self.peaks[str(case.params["dtype"])]
        return roofline.roofline_time(case.flops, peak, case.bytes, self.bandwidth)


def _device(number: int, model: str, peak: float, bandwidth: float) -> Device:
    target = Target(
        kind="gpu",
        arch=NAME,
        model=model,
        uuid=f"GPU-{NAME}-{number}",
        host=f"{NAME}-{number // 2}",
        configuration={"power_limit_w": 600},
        properties={"sm_count": 188},
    )
    return Device(target, {"bf16": peak, "fp8": 2 * peak, "nvfp4": 4 * peak}, bandwidth)


DEVICES = (
    _device(0, "Generated GPU 100", 500e12, 1.8e12),
    _device(1, "Generated GPU 100", 500e12, 1.8e12),
    _device(2, "Generated GPU 200", 990e12, 4.8e12),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    params: dict[str, str | int | bool]
    backend: str
    flops: float
    bytes: float


@functools.cache
def cases() -> tuple[Case, ...]:
    """What each night measures on each device."""
    return tuple(
        Case(
            {"m": m, "n": n, "k": k, "dtype": dtype, "layout": "nt"},
            backend,
            roofline.gemm_flops(m, n, k),
            roofline.gemm_bytes(m, n, k, dtype, dtype, "bf16"),
        )
        for (dtype, backend), (n, k), m in itertools.product(BACKENDS, SHAPES, EXTENTS_OF_M)
    )


def gemms(count: int, seed: int) -> Iterator[Document]:
    """Documents with `count` measurements in all: each night every device runs every case."""
    rng = random.Random(seed)
    # a release changes each case's speed a little, for all devices and nights alike
    releases = [[rng.gauss(1, 0.03) for _ in cases()] for _ in STACKS]
    nights = -(-count // (len(cases()) * len(DEVICES)))
    for night, device in itertools.product(range(nights), DEVICES):
        size = min(count, len(cases()))
        if size == 0:
            return
        count -= size
        release = night * len(STACKS) // nights
        torch, flashinfer = STACKS[release]
        began = START + PERIOD * (night / nights)
        yield Document(
            kind="gemm",
            command=COMMAND,
            started_at=stamp(began),
            finished_at=stamp(began + dt.timedelta(seconds=SECONDS_A_CASE * size)),
            target=device.target,
            stack={"torch": torch, "flashinfer": flashinfer, "driver": NAME},
            measurements=tuple(
                _measurement(
                    rng, case, device, speed, stamp(began + dt.timedelta(seconds=SECONDS_A_CASE * number))
                )
                for number, (case, speed) in enumerate(zip(cases()[:size], releases[release], strict=False))
            ),
            costs={"wall_seconds": SECONDS_A_CASE * size},
        )


def _measurement(rng: random.Random, case: Case, device: Device, speed: float, at: str) -> Measurement:
    outcome = _outcome(rng)
    timed = outcome not in ("launch_failed", "timeout", "oom")
    samples: tuple[float, ...] = ()
    if timed:
        seconds = (LAUNCH_FLOOR + device.ideal(case) / 0.8) * speed * rng.gauss(1, 0.01)
        # most calls are near the fastest, a few much slower
        samples = tuple([round(seconds * (1 + 0.03 * rng.random() ** 3), 9) for _ in range(SAMPLES)])
    return Measurement(
        kind="gemm",
        params=case.params,
        outcome=outcome,
        measured_at=at,
        samples=samples,
        statistics=_statistics(samples) if timed else None,
        timer="cupti" if timed else None,
        l2_policy="flushed",
        inputs="normal(0, 1)",
        backend=case.backend,
        kernel=f"{NAME}_gemm" if timed else None,
        flops=case.flops,
        bytes=case.bytes,
        correctness=_correctness(outcome, case) if timed and outcome != "unverified" else None,
        readings=_readings(rng) if timed else None,
        flags=("throttled",) if timed and rng.random() < 0.01 else (),
        error=None if timed else f"{NAME}: {outcome}",
    )


def _outcome(rng: random.Random) -> Outcome:
    draw = rng.randrange(1000)
    for outcome, share in TROUBLES.items():
        if draw < share:
            return outcome
        draw -= share
    return "ok"


def _statistics(samples: tuple[float, ...]) -> Statistics:
    ordered = sorted(samples)
    lowest, q1, median, q3 = (ordered[len(ordered) // 4 * quarter] for quarter in (0, 1, 2, 3))
    return Statistics(len(ordered), median, q1, q3, lowest)


def _readings(rng: random.Random) -> Readings:
    clock = 2400.0 - rng.randrange(60)
    return Readings(clock - 15, clock, clock + 15, 400.0 + rng.randrange(200), 40.0 + rng.randrange(40))


def _correctness(outcome: Outcome, case: Case) -> Correctness:
    wrong = outcome == "incorrect"
    elements = int(case.params["m"]) * int(case.params["n"])
    return Correctness(
        reference="float64",
        cosine=0.62 if wrong else 0.9999,
        max_relative_error=1.5 if wrong else 2e-3,
        nan_count=0,
        zero_count=elements // 2 if wrong else 0,
        elements=elements,
        tolerance=0.01,
    )


def stamp(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
