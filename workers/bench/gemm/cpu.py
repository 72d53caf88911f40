"""Dense GEMMs on the CPU through torch, by wall clock. Runs in a child process. Needs torch."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

from workers.bench import timing
from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm
from workers.bench.document import Flag, Measurement, Target, now
from workers.bench.gemm import sets
from workers.bench.gemm.how import CPU_BACKEND, How
from workers.bench.memory import available_bytes
from workers.bench.operators import registry
from workers.bench.operators.base import Operator, UnsupportedError, passes
from workers.bench.timers.calibrate import Calibration

WARM_UP_S = 0.1
#: share of this process's cores kept busy by others above which a window counts as contended
CONTENDED_SHARE = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


class Cpu:
    """The cores this process may run on."""

    name = "cpu"

    def __init__(self, torch: Any, threads: int | None) -> None:
        self.torch = torch
        self.cores = sorted(os.sched_getaffinity(0))
        torch.set_num_threads(threads or len(self.cores))
        self.cache_bytes = last_level_cache_bytes()

    def target(self) -> Target:
        properties: dict[str, str | int | float] = {
            "cores": len(self.cores),
            "cpu_capability": self.torch.backends.cpu.get_cpu_capability(),
        }
        if self.cache_bytes is not None:
            properties["cache_bytes"] = self.cache_bytes
        return Target(
            kind="cpu",
            arch=platform.machine(),
            model=cpu_model(),
            configuration={"threads": self.torch.get_num_threads()},
            properties=properties,
        )

    def stack(self) -> dict[str, str]:
        return {}

    def calibrate(self) -> Calibration:
        return Calibration({}, {})

    def operators(self, case: Case) -> list[Operator]:
        if not isinstance(case, Gemm):
            raise UnsupportedError(f"A CPU measures dense products only, and no {case.kind}.")
        return [each for each in registry.operators(self.torch, case) if each.backend == CPU_BACKEND]

    def sound(self) -> bool:
        return True

    def clean(self) -> None:
        pass

    def measure(self, case: Case, operator: Operator, how: How) -> Measurement:
        """Time `case` for at most `how.seconds` of sampling; one sample is one call."""
        available = available_bytes()
        free = math.inf if available is None else float(available)
        sets.refuse_too_large(case, free)
        first = operator.ready(self.torch, case)
        plan = sets.plan(case.work.bytes, case.work.bytes, self.cache_bytes, min(free, 2**60), how.l2)
        filled = sets.fill(self.torch, operator, case, first, plan.count)
        scratch = self.torch.zeros(sets.CACHE_MULTIPLE * (self.cache_bytes or 0) // 4 if plan.flush else 0)
        turn, outputs = 0, first.call()

        def call() -> float:
            nonlocal turn, outputs
            each = filled[turn % plan.count]
            turn += 1
            scratch.sum()
            began = time.perf_counter()
            outputs = each.call()
            return time.perf_counter() - began

        warm_until = time.monotonic() + WARM_UP_S
        call()
        while time.monotonic() < warm_until:
            call()

        for each in filled:
            sets.poison(self.torch, each.call())
        checked = filled[turn % plan.count]
        call()
        found = checked.check(outputs)

        measured_at, before = now(), self._busy()
        window = timing.sample_until_quiet(lambda: timing.Batch([call()]), at_most_s=how.seconds)
        others = self._others_share(before, self._busy())

        flags: list[Flag] = []
        if others is not None and others > CONTENDED_SHARE:
            flags.append("contended")
        if timing.is_short(window.samples):
            flags.append("few_samples")
        return Measurement(
            kind=case.kind,
            params=case.params,
            outcome="ok" if passes(found) else "incorrect",
            measured_at=measured_at,
            samples=tuple(window.samples),
            statistics=timing.summarise(window.samples),
            timer="wall_clock",
            l2_policy=plan.policy,
            inputs=first.inputs,
            backend=operator.backend,
            flops=case.work.flops,
            bytes=case.work.bytes,
            correctness=found,
            flags=tuple(flags),
        )

    def kernel(self, case: Case, operator: Operator) -> str | None:
        return None

    def _busy(self) -> tuple[float, float, float] | None:
        """Seconds of (wall, this process, every process) on our cores; None where /proc does not tell."""
        try:
            lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        except OSError:
            return None
        ours = {f"cpu{core}" for core in self.cores}
        busy = 0.0
        for line in lines:
            fields = line.split()
            if fields and fields[0] in ours:
                user, nice, system, _idle, _iowait, irq, softirq, steal = (int(x) for x in fields[1:9])
                busy += (user + nice + system + irq + softirq + steal) / _TICKS
        return time.monotonic(), time.process_time(), busy

    def _others_share(
        self, before: tuple[float, float, float] | None, after: tuple[float, float, float] | None
    ) -> float | None:
        """Share of our cores' time in the window that others took; None for windows too short to tell."""
        if before is None or after is None:
            return None
        wall, own, busy = (late - early for late, early in zip(after, before, strict=True))
        # /proc/stat counts in ticks: below some tens of them the difference is mostly rounding.
        if wall * len(self.cores) * _TICKS < 50:
            return None
        return max(0.0, busy - own) / (wall * len(self.cores))


def cpu_model() -> str:
    """The processor's own name, or the architecture where /proc does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    match = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def last_level_cache_bytes() -> int | None:
    """Size of the largest cache of the first core, from sysfs; None where it does not tell."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KM])", path.read_text(encoding="ascii").strip())
        if match:
            sizes.append(int(match.group(1)) * (1024 if match.group(2) == "K" else 1024**2))
    return max(sizes, default=None)
