"""A model's steps on one rank of a gang: timed, checked, and later traced. Needs torch and the decoder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from workers.bench import timing
from workers.bench.cases.model import Decode, Prefill
from workers.bench.decoder import invariants
from workers.bench.document import SAMPLE_CAP, Correctness, Measurement, Statistics, Step
from workers.bench.experts.base import Backend
from workers.bench.model_work import step_work
from workers.bench.moe import capacity, tracing, window
from workers.bench.moe.device import Device
from workers.bench.moe.ranks import Ranks

INPUTS = "random weights, tokens and cache"
#: steps of which the host's own time is taken, each while the device has nothing else to do
HOST_STEPS = 16
Say = Callable[[str], None]


def checked(torch: Any, decoder: Any, ranks: Ranks) -> Correctness:
    """What must hold of the decoder, on the rank that is furthest from it."""
    every: list[Correctness] = ranks.gather(invariants.check(torch, decoder))
    return min(every, key=lambda each: (invariants.holds(each), -each.nan_count, each.cosine))


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """One decoder on one rank, and what it was made of."""

    torch: Any
    decoder: Any
    experts: Backend
    device: Device
    ranks: Ranks
    say: Say
    #: of this decoder on all ranks, whatever it is timed with
    found: Correctness

    def measure(self, case: Decode | Prefill, steps: int, seconds: float) -> Measurement | None:
        """Of this case; the whole gang's on rank 0, None on the others. Every rank calls it."""
        step = self._ready(case, -capacity.lead(case))
        self.say("its warm-up")
        if isinstance(case, Decode):
            pace = window.warm_up(step, self.device, self.ranks, capacity.lead(case))
        else:
            pace = window.warm_up(step, self.device, self.ranks, capacity.LEAD, window.WARM_UP_S)
        self.decoder.count_anew()
        self.say("its window")
        seen = window.measure(step, window.count(pace, steps, seconds), self.device, self.ranks)
        hit, routing, cache = self.decoder.experts_hit(), self.decoder.routing(), self.decoder.kv_bytes
        host = self._host_time(step)
        sizes = self.ranks.gather((self.decoder.weight_bytes, cache))
        if self.ranks.rank:
            return None
        return self._measurement(case, seen, host, sizes, hit, routing)

    def trace(self, case: Decode | Prefill, steps: int) -> tracing.Trace | None:
        """Where the time of a step in the middle of `steps` goes; on rank 0. Every rank calls it, and after
        every window: launches are slower in a process that torch's profiler was in."""
        work = self._ready(case, steps // 2, captured=False)
        self.say("its trace")
        torch, profiled = self.torch, self.ranks.rank == 0
        layers, name = case.layout.moe_layers, self.decoder.name
        if self.device.name == "cpu":
            return tracing.on_cpu(torch, work, profiled, layers)
        eager = tracing.launched(torch, work, profiled)
        if isinstance(case, Prefill):
            return tracing.of_launches(eager, self.experts, name, layers) if profiled else None
        self._ready(case, steps // 2)
        replays = tracing.replayed(torch, work, profiled)
        return tracing.of_replays(eager, replays, self.experts, name, layers) if profiled else None

    def _sequences(self, case: Decode | Prefill) -> int:
        return case.batch // case.ep

    def _ready(self, case: Decode | Prefill, ahead: int, *, captured: bool = True) -> Callable[[], Any]:
        """What makes one step of the case, the next time and each time after; of a decode the first one
        `ahead` tokens beyond the case's context."""
        self.say("its preparation")
        decoder, sequences = self.decoder, self._sequences(case)
        if isinstance(case, Prefill):
            tokens = decoder.random_tokens(sequences, case.context)
            return lambda: decoder.prefill(tokens)
        decoder.begin(sequences, case.context + ahead)
        if captured and self.device.name != "cpu":
            decoder.capture()
        step: Callable[[], Any] = decoder.step
        return step

    def _host_time(self, step: Callable[[], Any]) -> Statistics:
        """Seconds that the host takes to issue a step that it does not wait for."""
        spent = []
        for _ in range(HOST_STEPS):
            self.device.wait()
            self.ranks.wait()
            began = time.perf_counter()
            step()
            spent.append(time.perf_counter() - began)
        self.device.wait()
        return timing.summarise(spent)

    def _measurement(
        self,
        case: Decode | Prefill,
        seen: window.Window,
        host: Statistics,
        sizes: list[tuple[int, int]],
        hit: float,
        routing: list[int],
    ) -> Measurement:
        layout = case.layout
        # A cache grows with every step: the work is that of the step in the middle.
        middle = case.context + (seen.steps // 2 if isinstance(case, Decode) else 0)
        work = step_work(layout, case.phase, case.batch, middle, hit)
        return Measurement(
            kind=case.kind,
            params=case.params,
            outcome="ok" if invariants.holds(self.found) else "incorrect",
            measured_at=seen.measured_at,
            samples=tuple(timing.thinned(seen.samples, SAMPLE_CAP)),
            statistics=timing.summarise(seen.samples),
            host_time=host,
            timer=self.device.timer,
            l2_policy="warm",
            inputs=INPUTS,
            backend=self.decoder.name,
            flops=work.flops,
            bytes=work.bytes,
            correctness=self.found,
            readings=seen.readings,
            step=Step(
                tokens=case.tokens * seen.steps,
                steps=seen.steps,
                window_s=seen.window_s,
                # none of a CPU's
                gpus=layout.gpus if self.device.name == "cuda" else 0,
                layers=case.layers,
                layers_total=layout.model.layers,
                weight_bytes=max(weights for weights, _ in sizes),
                kv_bytes=max(cache for _, cache in sizes),
                peak_memory_bytes=seen.peak_bytes,
                rank_medians=seen.rank_medians,
                experts_hit=hit if layout.moe_layers else None,
                routing=tuple(routing),
                power_w=seen.power_w,
                left_out=self.decoder.left_out,
            ),
            flags=seen.flags,
        )
