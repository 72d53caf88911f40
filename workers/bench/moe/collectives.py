"""What the ranks of a gang exchange: an all-reduce or an all-to-all, timed and checked. Needs torch.

FlashInfer's own all-reduce is vLLM's: each GPU reads the others' rows through CUDA IPC. Its fused ones, and
its all-to-all, take NVLink multicast or fabric handles, which a host may forbid; they are not tried.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from workers.bench import timing
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.document import SAMPLE_CAP, Flag, Measurement, now
from workers.bench.gemm import nvidia, sets
from workers.bench.moe.device import Device, Watch
from workers.bench.moe.ranks import Ranks
from workers.bench.operators import no_jit
from workers.bench.operators.asking import in_its_words, module_of
from workers.bench.operators.base import UnsupportedError, passes
from workers.bench.operators.correctness import whole
from workers.bench.timers.base import head_start

Case = AllReduce | AllToAll
#: calls between two events: in place, a sum grows with each, and stays finite over so many
CALLS = 32
SAMPLES_AT_LEAST_S = 0.25
_WARM_UP_S = 0.3
#: of the blocks that vLLM's all-reduce may start; its own bound
_CTAS = 36
#: of what it keeps of registered buffers
_RANK_DATA_BYTES = 8 * 2**20
#: a sum of two to eight bf16 rows, rounded after each addition
_TOLERANCE = 2e-2

FLASHINFER = "flashinfer.vllm_all_reduce"


def backends(kind: str, device: str) -> tuple[str, ...]:
    """Those that can be asked for a collective of this kind."""
    if device == "cpu":
        return ("gloo",)
    return ("nccl", FLASHINFER) if kind == AllReduce.kind else ("nccl",)


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """`call` launches it once, over `rows` as they are then, and returns the tensor that it wrote; it is in
    place where that is `rows` itself. `held` must stay for as long as it is called."""

    call: Callable[[], Any]
    rows: Any
    held: Any = None


def measure(
    torch: Any, case: Case, backend: str, device: Device, ranks: Ranks, seconds: float
) -> Measurement | None:
    """The slowest rank's time, on rank 0; None on the others. Every rank calls it."""
    drawn = _drawn(torch, case, ranks.rank, device.place)
    exchange = _made(torch, case, backend, drawn.clone(), ranks, device.name)
    out = exchange.call()
    device.wait()
    exchange.rows.copy_(drawn)
    if out is not exchange.rows:
        sets.poison(torch, (out,))
    out = exchange.call()
    device.wait()
    wanted = _reference(torch, case, ranks, device.place)
    found = whole(out, wanted, "float64, of the same rows", 0.0 if isinstance(case, AllToAll) else _TOLERANCE)

    take = _by_clock if device.name == "cpu" else _by_events
    batch = take(torch, exchange, drawn, ranks)
    warm_until = time.monotonic() + _WARM_UP_S
    while ranks.gather(time.monotonic() < warm_until)[0]:
        batch()
    measured_at = now()
    samples: list[float] = []
    with Watch(device.source()) as watch:
        began = time.monotonic()
        while ranks.gather(_goes_on(samples, time.monotonic() - began, seconds))[0]:
            samples.append(batch())
    readings = nvidia.summarise(watch.readings)
    every = ranks.gather((samples, found, nvidia.flags(readings, device.source().sharers())))
    if ranks.rank:
        return None
    slowest = max((each for each, _, _ in every), key=lambda each: timing.summarise(each).median)
    worst = min((each for _, each, _ in every), key=lambda each: (passes(each), -each.nan_count, each.cosine))
    flags: list[Flag] = list(dict.fromkeys(flag for _, _, those in every for flag in those))
    if timing.is_short(slowest):
        flags.append("few_samples")
    return Measurement(
        kind=case.kind,
        params=case.params,
        outcome="ok" if passes(worst) else "incorrect",
        measured_at=measured_at,
        samples=tuple(slowest),
        statistics=timing.summarise(slowest),
        timer=device.timer,
        l2_policy="warm",
        inputs="normal(0, 1), the same rows each time",
        backend=backend,
        flops=case.work.flops,
        bytes=case.work.bytes,
        correctness=worst,
        readings=readings,
        flags=tuple(flags),
    )


def _goes_on(samples: list[float], spent: float, seconds: float) -> bool:
    if spent >= seconds or len(samples) >= SAMPLE_CAP:
        return not samples
    return spent < SAMPLES_AT_LEAST_S or timing.is_short(samples)


def _by_clock(torch: Any, exchange: Exchange, drawn: Any, ranks: Ranks) -> Callable[[], float]:
    """One call, from a moment at which every rank is there to the end of this rank's."""

    def batch() -> float:
        exchange.rows.copy_(drawn)
        ranks.wait()
        began = time.perf_counter()
        exchange.call()
        return time.perf_counter() - began

    return batch


def _by_events(torch: Any, exchange: Exchange, drawn: Any, ranks: Ranks) -> Callable[[], float]:
    """The mean of CALLS calls in a row, behind one in which the ranks find one another. All are in the queue
    before the GPU begins."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        exchange.call()
    issue_s = 1.5 * (time.perf_counter() - began) + 2e-4

    def batch() -> float:
        exchange.rows.copy_(drawn)
        torch.cuda.synchronize()
        ranks.wait()
        head_start(torch, issue_s)
        exchange.call()
        start.record()
        for _ in range(CALLS):
            exchange.call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / CALLS

    return batch


def _drawn(torch: Any, case: Case, rank: int, place: str) -> Any:
    """The rows of one rank, which every rank can draw: [tokens, hidden]."""
    generator = torch.Generator(device=place).manual_seed(rank)
    return torch.randn(case.tokens, case.hidden, device=place, generator=generator).bfloat16()


def _reference(torch: Any, case: Case, ranks: Ranks, place: str) -> Any:
    every = (_drawn(torch, case, rank, place) for rank in range(ranks.world))
    if isinstance(case, AllReduce):
        return sum(rows.double() for rows in every)
    share = case.tokens // ranks.world
    first = ranks.rank * share
    return torch.cat([rows[first : first + share] for rows in every])


def _made(torch: Any, case: Case, backend: str, rows: Any, ranks: Ranks, device: str) -> Exchange:
    """Raises UnsupportedError."""
    dist = torch.distributed
    if backend not in backends(case.kind, device):
        raise UnsupportedError(f"{backend} exchanges no {case.kind} here.")
    if backend == FLASHINFER and isinstance(case, AllReduce):
        with in_its_words():
            return _vllm(torch, rows, ranks)
    if isinstance(case, AllReduce):

        def reduce() -> Any:
            dist.all_reduce(rows)
            return rows

        return Exchange(reduce, rows)
    out = torch.empty_like(rows)

    def swap() -> Any:
        dist.all_to_all_single(out, rows)
        return out

    return Exchange(swap, rows)


def _vllm(torch: Any, rows: Any, ranks: Ranks) -> Exchange:
    """Its buffers stay: the process of a gang ends soon."""
    if no_jit.flashinfer(torch) is None:
        raise UnsupportedError("FlashInfer is not installed here.")
    comm = module_of("flashinfer.comm")
    if comm is None or not hasattr(comm, "vllm_all_reduce"):
        raise UnsupportedError("This FlashInfer has no vllm_all_reduce.")
    size = rows.numel() * rows.element_size()
    signals = comm.create_shared_buffer(comm.vllm_meta_size() + size, group=ranks.group)
    buffers = comm.create_shared_buffer(size, group=ranks.group)
    data = torch.empty(_RANK_DATA_BYTES, dtype=torch.uint8, device=rows.device)
    reach = all(
        torch.cuda.can_device_access_peer(ranks.rank, other)
        for other in range(ranks.world)
        if other != ranks.rank
    )
    handle = comm.vllm_init_custom_ar(signals, data, ranks.rank, reach)
    comm.vllm_register_buffer(handle, buffers)
    out = torch.empty_like(rows)

    def reduce() -> Any:
        comm.vllm_all_reduce(handle, rows, out, buffers[ranks.rank], size, _CTAS)
        return out

    return Exchange(reduce, rows, data)
