"""GEMMs on one CUDA GPU through torch, by CUDA graph. Runs in a child process. Needs torch.

A sample is one replay of a graph that holds many calls, rotating over operand sets which together
outrun the L2, divided by the calls: GPU time, with the gaps between kernels of one graph and no
host time. Before each replay a large fill keeps the GPU busy until the replay is in the queue, so
that the events around it do not see the host. Host time is taken apart.
"""

from __future__ import annotations

import functools
import importlib.metadata
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from workers.bench import timing
from workers.bench.cases.gemm import Gemm as Case
from workers.bench.document import BenchError, Flag, Measurement, Statistics, Target, Timer, now
from workers.bench.gemm import correctness, nvidia, operands
from workers.bench.gemm.operands import BACKEND

#: of the very load that is timed: a power cap takes some tenths of a second to set the clock
WARM_UP_S = 0.5
#: of plain calls, to learn how long one takes
TRIAL_S = 0.05
#: GPU time one replay shall cover: starting a graph costs about 10 µs once (seen on an H200), here 0.25 %
REPLAY_S = 4e-3
MAX_CALLS = 1024
#: time to fill must exceed the host's time to launch a graph: 0.1 to 0.5 ms on GPUs of 2 to 8 TB/s
HEAD_START_BYTES = 2**30
#: long enough for the driver's readings to follow
WINDOW_AT_LEAST_S = 0.25
HOST_CALLS = 64
FLOOR_CALLS = MAX_CALLS
FLOOR_S = 0.5


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
        uuid = getattr(self._told, "uuid", None)
        self.uuid = None if uuid is None else _prefixed(str(uuid))
        self.source = nvidia.open_source(self.uuid)
        self._settings = self.source.settings()
        room = min(HEAD_START_BYTES, self._told.total_memory // 8)
        self._head_start = torch.empty(room, dtype=torch.uint8, device="cuda")

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
        versions = {"toolkit": str(self.torch.version.cuda), **self._settings.stack}
        cudnn = self.torch.backends.cudnn.version()
        if cudnn:
            versions["cudnn"] = f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"
        for package in ("nvidia-cublas", f"nvidia-cublas-cu{str(self.torch.version.cuda).split('.')[0]}"):
            try:
                versions["cublas"] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        return versions

    def costs(self) -> dict[str, float]:
        """The launch floor: seconds of a one-element fill by the same timer, the least any kernel takes."""
        tiny = self.torch.zeros(1, device="cuda")
        replay, _ = self._repeatable([lambda: tiny.fill_(1.0)] * FLOOR_CALLS)
        samples = timing.sample_until_quiet(self._timed(replay, FLOOR_CALLS), at_most_s=FLOOR_S)
        return {"launch_floor_seconds": timing.summarise(samples).median}

    def measure(self, case: Case, seconds: float) -> Measurement:
        """Time `case` for at most `seconds` of sampling."""
        torch = self.torch
        self._set_precision(case)
        free, _ = torch.cuda.mem_get_info()
        count, policy = operands.plan_sets(case, self._told.L2_cache_size or None, free)
        sets = operands.make_sets(torch, case, "cuda", count)
        calls = [functools.partial(operands.multiply, torch, each) for each in sets]

        passes = self._passes(calls)
        replay, timer = self._repeatable(calls * passes)
        operands.poison(sets)
        replay()
        checked = sets[-1]
        found = correctness.compare(checked.d, checked.a, checked.b, case.dtype)

        take = self._timed(replay, count * passes)
        warm_until = time.monotonic() + WARM_UP_S
        take()
        while time.monotonic() < warm_until:
            take()
        self.source.take()
        measured_at = now()
        samples = timing.sample_until_quiet(take, at_most_s=seconds, at_least_s=WINDOW_AT_LEAST_S)
        readings = nvidia.summarise(self.source.take())
        host_time = self._host_time(calls)

        flags: list[Flag] = []
        if readings is not None and nvidia.THROTTLING & set(readings.throttle_reasons):
            flags.append("throttled")
        if (self.source.sharers() or 0) > 1:
            flags.append("contended")
        if timing.is_short(samples):
            flags.append("few_samples")
        if timer != "cuda_graph":
            flags.append("fallback_timer")
        return Measurement(
            kind="gemm",
            params=case.params,
            outcome="ok" if correctness.passes(found) else "incorrect",
            measured_at=measured_at,
            samples=tuple(samples),
            statistics=timing.summarise(samples),
            host_time=host_time,
            timer=timer,
            l2_policy=policy,
            inputs=operands.INPUTS,
            backend=BACKEND,
            flops=case.flops,
            bytes=case.bytes,
            correctness=found,
            readings=readings,
            flags=tuple(flags),
        )

    def kernel(self, case: Case) -> str | None:
        """Name of the kernel that takes most of one call's time, as the profiler tells it."""
        torch = self.torch
        self._set_precision(case)
        [only] = operands.make_sets(torch, case, "cuda", 1)
        operands.multiply(torch, only)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            operands.multiply(torch, only)
            torch.cuda.synchronize()
        kernels = [event for event in profile.events() if event.device_type.name == "CUDA"]
        return str(max(kernels, key=lambda event: event.device_time).name)[:300] if kernels else None

    def _set_precision(self, case: Case) -> None:
        # "highest" is IEEE fp32; "high" lets fp32 inputs multiply as tf32.
        self.torch.set_float32_matmul_precision("high" if case.dtype == "tf32" else "highest")

    def _passes(self, calls: Sequence[Callable[[], Any]]) -> int:
        """How many turns over `calls` cover REPLAY_S, from a short trial by events."""
        torch = self.torch
        for call in calls:
            call()  # loads modules and makes handles, which would pass for the kernel's time
        torch.cuda.synchronize()
        trial_until = time.monotonic() + TRIAL_S
        turn_s = math.inf
        while time.monotonic() < trial_until:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            self._head_start.fill_(0)
            start.record()
            for call in calls:
                call()
            end.record()
            end.synchronize()
            turn_s = min(turn_s, start.elapsed_time(end) / 1e3)
        wanted = math.ceil(REPLAY_S / turn_s) if turn_s > 0 else MAX_CALLS
        return max(1, min(wanted, MAX_CALLS // len(calls)))

    def _repeatable(self, calls: Sequence[Callable[[], Any]]) -> tuple[Callable[[], Any], Timer]:
        """All of `calls` as one graph to replay; where they cannot be captured, one after the other."""
        torch = self.torch

        def plain() -> None:
            for call in calls:
                call()

        # Handles and workspaces are made on the capturing stream before the capture, never in it.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            calls[0]()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=side):
                plain()
        except RuntimeError:
            torch.cuda.synchronize()  # raises again where the device itself is broken
            return plain, "cuda_events"
        return graph.replay, "cuda_graph"

    def _timed(self, replay: Callable[[], Any], calls: int) -> Callable[[], float]:
        """A function that replays once and gives GPU seconds per call."""
        torch = self.torch
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def take() -> float:
            self._head_start.fill_(0)
            start.record()
            replay()
            end.record()
            self.source.poll()  # while the GPU works
            end.synchronize()
            return float(start.elapsed_time(end)) / 1e3 / calls

        return take

    def _host_time(self, calls: Sequence[Callable[[], Any]]) -> Statistics:
        """Seconds the host spends on one call: issued and not waited for."""
        self.torch.cuda.synchronize()
        samples = []
        for index in range(HOST_CALLS):
            began = time.perf_counter()
            calls[index % len(calls)]()
            samples.append(time.perf_counter() - began)
        self.torch.cuda.synchronize()
        return timing.summarise(samples)


def _prefixed(uuid: str) -> str:
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
