"""One CUDA GPU: times a case by one operator, and checks what the timed calls brought. Needs torch.

Runs in a child process. GPU time comes from `workers.bench.timers`, the host's time to issue a call is taken
apart, and what the driver says of the GPU is read while it works.
"""

from __future__ import annotations

import math
import time
from typing import Any, cast

from workers.bench import timing
from workers.bench.cases.base import Case
from workers.bench.cases.ceiling import Copy, EmptyKernel
from workers.bench.document import BenchError, Correctness, Measurement, Statistics, Target, now
from workers.bench.document import Timer as TimerName
from workers.bench.gemm import nvidia, sets
from workers.bench.gemm.how import How
from workers.bench.operators import registry
from workers.bench.operators.base import Operator, Ready, passes
from workers.bench.timers import base, calibrate, choose
from workers.bench.timers.base import Load
from workers.bench.timers.cupti import Cupti, ProfilerTrace
from workers.bench.timers.spans import dominant

#: of the very load that is timed: a power cap takes some tenths of a second to set the clock
WARM_UP_S = 0.5
#: long enough for the driver's readings to follow
WINDOW_AT_LEAST_S = 0.25
HOST_CALLS = 64


class Cuda:
    """The first CUDA device this process may see."""

    name = "cuda"

    def __init__(self, torch: Any, threads: int | None) -> None:
        if not torch.cuda.is_available():
            built = f"torch {torch.__version__}"
            raise BenchError(
                "no_cuda",
                f"{built} sees no CUDA GPU here: a GPU, its driver and a CUDA build of torch are needed.",
            )
        self.torch = torch
        torch.cuda.init()
        self._told = torch.cuda.get_device_properties(0)
        self.uuid = uuid_of(torch, 0)
        self.source = nvidia.open_source(self.uuid)
        self._settings = self.source.settings()
        self._reading: nvidia.Reading | None = None

    def target(self) -> Target:
        told = self._told
        return Target(
            kind="gpu",
            arch=f"sm{told.major}{told.minor}",
            model=told.name,
            uuid=self.uuid,
            configuration=self._settings.configuration,
            properties={
                "sm_count": told.multi_processor_count,
                "l2_bytes": told.L2_cache_size,
                "smem_optin_bytes": told.shared_memory_per_block_optin,
                "memory_bytes": told.total_memory,
                **self._settings.properties,
            },
        )

    def stack(self) -> dict[str, str]:
        """What the driver adds to the versions that packages tell."""
        return self._settings.stack

    def calibrate(self) -> calibrate.Calibration:
        return calibrate.calibrate(self.torch)

    def operators(self, case: Case) -> list[Operator]:
        return [Empty()] if isinstance(case, EmptyKernel) else registry.operators(self.torch, case)

    def sound(self) -> bool:
        """Whether the device still works for this process: after an assert or a bad access it never does."""
        try:
            self.torch.cuda.synchronize()
        except Exception:  # whatever it raises, nothing more can run here
            return False
        return True

    def clean(self) -> None:
        self.torch.cuda.empty_cache()

    def measure(self, case: Case, operator: Operator, how: How) -> Measurement:
        """Time `case` for at most `how.seconds`. Raises CannotTimeError, or what the operator raises."""
        torch = self.torch
        free, _ = torch.cuda.mem_get_info()
        sets.refuse_too_large(case, free)
        before = torch.cuda.memory_allocated()
        first = operator.ready(torch, case)
        held = max(case.work.bytes, torch.cuda.memory_allocated() - before)
        if isinstance(case, EmptyKernel):
            plan, overheads = sets.Plan(1, False, "unknown"), dict[str, float]()
            names: tuple[TimerName, ...] = (cast(TimerName, case.timer),)
        else:
            plan = sets.plan(case.work.bytes, held, self._told.L2_cache_size or None, free, how.l2)
            names, overheads = choose.after(how.timer), how.overheads
        if isinstance(case, Copy):  # a graph copies by another engine, half as fast on an H200
            names = tuple(name for name in names if name != "cuda_graph")
        filled = sets.fill(torch, operator, case, first, plan.count)
        load = Load([each.call for each in filled], self._flush() if plan.flush else None)
        pace = base.pace(torch, load)
        host_time = self._host_time(load)
        timer = choose.first(torch, names, load, pace, overheads)
        sets.poison(torch, timer.outputs)
        timer.samples(self._poll)
        try:
            found = filled[timer.last].check(timer.outputs)
        except Exception as error:  # no refusal of the library's, whatever it is called
            raise RuntimeError(f"The output could not be checked: {error}") from error

        warm_until = time.monotonic() + WARM_UP_S
        while time.monotonic() < warm_until:
            timer.samples(self._poll)
        self.source.take()
        self._reading = None
        measured_at = now()

        def take() -> timing.Batch:
            samples = timer.samples(self._poll)
            return timing.Batch(samples, None if self._reading is None else self._reading.sm_clock_mhz)

        window = timing.sample_until_quiet(take, at_most_s=how.seconds, at_least_s=WINDOW_AT_LEAST_S)
        readings = nvidia.summarise(self.source.take())

        flags = nvidia.flags(readings, self.source.sharers())
        if timing.is_short(window.samples):
            flags.append("few_samples")
        if timer.name != names[0]:
            flags.append("fallback_timer")
        return Measurement(
            kind=case.kind,
            params=case.params,
            outcome="ok" if passes(found) else "incorrect",
            measured_at=measured_at,
            samples=tuple(window.samples),
            discarded=window.discarded,
            statistics=timing.summarise(window.samples),
            host_time=host_time,
            timer=timer.name,
            l2_policy=plan.policy,
            inputs=first.inputs,
            backend=operator.backend,
            kernel=timer.kernel if isinstance(timer, Cupti) else None,
            flops=(first.work or case.work).flops,
            bytes=(first.work or case.work).bytes,
            routing=first.routing,
            correctness=found,
            readings=readings,
            flags=tuple(flags),
        )

    def kernel(self, case: Case, operator: Operator) -> str | None:
        """Name of the kernel that takes most of one call's time, as torch's profiler tells it."""
        only = operator.ready(self.torch, case)
        trace = ProfilerTrace(self.torch)
        trace.start()
        only.call()
        self.torch.cuda.synchronize()
        name = dominant(trace.stop())
        return None if name is None else name[:300]

    def _poll(self) -> None:
        self._reading = self.source.poll()

    def _flush(self) -> Any:
        """What takes the whole L2 for itself. It reads: after a fill, the L2 is full of lines that are still
        to be written, for which the next call would pay."""
        torch = self.torch
        elements = sets.CACHE_MULTIPLE * self._told.L2_cache_size // 4
        scratch, least = torch.zeros(elements, device="cuda"), torch.zeros((), device="cuda")
        return lambda: torch.amax(scratch, dim=0, out=least)

    def _host_time(self, load: Load) -> Statistics:
        """Seconds the host spends on one call: issued and not waited for."""
        self.torch.cuda.synchronize()
        samples = []
        for index in range(HOST_CALLS):
            began = time.perf_counter()
            load.calls[index % len(load.calls)]()
            samples.append(time.perf_counter() - began)
        self.torch.cuda.synchronize()
        return timing.summarise(samples)


class Empty:
    """A kernel that does next to nothing: its time is a property of the timer, and of the GPU."""

    backend = "torch.fill_"

    def ready(self, torch: Any, case: Case) -> Ready:
        def check(outputs: tuple[Any, ...]) -> Correctness:
            got = float(outputs[0])
            right = got == 1.0
            return Correctness(
                reference="the one element it writes",
                cosine=float(right),
                max_relative_error=0.0 if right else 1.0,
                nan_count=int(math.isnan(got)),
                zero_count=int(got == 0),
                elements=1,
                tolerance=0.0,
            )

        return Ready(calibrate.empty(torch).calls[0], check, "none")


def uuid_of(torch: Any, index: int) -> str | None:
    """The UUID of a GPU as NVML and nvidia-smi take it."""
    told = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if told is None:
        return None
    text = str(told)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"
