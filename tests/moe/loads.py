"""Documents of servers under load and of collectives for tests, stored the way every document is."""

from __future__ import annotations

import dataclasses

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode
from workers.bench.cases.serving import Serving as Case
from workers.bench.document import (
    Correctness,
    Document,
    Measurement,
    Percentiles,
    Serving,
    Statistics,
    Step,
    Target,
)

EIGHT = Target("endpoint", "endpoint", model="8 × RTX PRO 6000", host="pro6000-a", properties={"gpus": 8})
GANG = Target(
    "gpu", "sm90", model="NVIDIA H200", uuid="GPU-1", host="box",
    properties={"gpus": 2, "peer_access": "all", "link": "NVLink, 18 links"},
)  # fmt: skip
AT = "2026-11-20T10:00:00.000Z"
VLLM = {"vllm": "0.11.0", "flashinfer": "0.6.3", "aiperf": "0.13.0"}


def store(kind, *measurements, target, stack, day=20, notes=()):
    document = Document(
        kind=kind,
        command=("python", "-m", "workers.bench", kind),
        started_at=f"2026-11-{day:02}T09:59:00.000Z",
        finished_at=f"2026-11-{day:02}T10:09:00.000Z",
        target=target,
        stack=stack,
        measurements=tuple(
            dataclasses.replace(each, measured_at=f"2026-11-{day:02}T10:00:00.000Z") for each in measurements
        ),
        notes=notes,
    )
    row, _ = receive(document.dumps().encode(), origin=Row.Origin.FILE, name=f"{kind}.json")
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored


def spread(p50, n=64):
    return Percentiles(n, p50 * 1.1, p50, p50 * 1.5, p50 * 1.7, p50 * 2)


def load(
    concurrency, *, tpot=0.02, window=4.0, completed=64, errors=None, gpus=8, outcome="unverified",
    error=None, model="openai/gpt-oss-120b", lengths=(1024, 256), stack_by="told", flags=(),
):  # fmt: skip
    """One load; without a request that ended well where `completed` is 0."""
    errors = errors or {}
    ttft, latency = (spread(tpot * times) if completed else None for times in (5, 260))
    between = spread(tpot) if completed else None
    made, taken = completed * lengths[1], completed * (lengths[0] + 2)
    seen = Serving(
        sent=completed + sum(errors.values()), completed=completed, window_s=window, input_tokens=taken,
        output_tokens=made, counted_by="server", stack_by=stack_by, errors=errors, gpus=gpus,
        ttft=ttft, tpot=between, itl=between, latency=latency,
    )  # fmt: skip
    timed = bool(completed)
    return Measurement(
        kind="serving",
        params=Case(model, concurrency, lengths[0], lengths[1], max(64, concurrency)).params,
        outcome=outcome,
        measured_at=AT,
        samples=(tpot,) * 5 if timed else (),
        statistics=Statistics(5, tpot, tpot, tpot, tpot) if timed else None,
        timer="wall_clock" if timed else None,
        backend="vllm",
        serving=seen,
        flags=flags,
        error=error,
    )


def exchange(tokens, seconds, *, hidden=2048, ranks=2, kind="all_reduce", backend="nccl", outcome="ok",
             error=None):  # fmt: skip
    """One collective; `seconds` None for one that has no time."""
    of = AllReduce if kind == AllReduce.kind else AllToAll
    case = of(tokens, hidden, ranks, "bf16")
    timed = seconds is not None
    return Measurement(
        kind=kind,
        params=case.params,
        outcome=outcome,
        measured_at=AT,
        samples=(seconds,) * 20 if timed else (),
        statistics=Statistics(20, seconds, seconds * 0.98, seconds * 1.03, seconds * 0.97) if timed else None,
        timer="cuda_events" if timed else None,
        l2_policy="warm" if timed else "unknown",
        backend=backend,
        flops=case.work.flops,
        bytes=case.work.bytes,
        correctness=Correctness("float64, of the same rows", 0.99999, 3e-3, 0, 0, tokens * hidden, 2e-2)
        if timed
        else None,
        error=error,
    )


def decode(batch, seconds, *, model="Qwen3-30B-A3B", layers=48, tp=2):
    return Measurement(
        kind="decode",
        params=Decode(model, batch, 1024, layers, tp, 1, "bf16").params,
        outcome="ok",
        measured_at=AT,
        samples=(seconds,) * 20,
        statistics=Statistics(20, seconds, seconds, seconds, seconds),
        timer="cuda_events",
        l2_policy="warm",
        backend="flashinfer+triton.fused_experts",
        correctness=Correctness("float32", 1.0, 1e-3, 0, 0, 100, 2e-2),
        step=Step(
            tokens=batch * 200, steps=200, window_s=200 * seconds, gpus=tp, layers=layers, layers_total=48,
            weight_bytes=30 * 10**9, kv_bytes=10**9, peak_memory_bytes=32 * 10**9,
            projected_s=None if layers == 48 else seconds * 48 / layers,
        ),
    )  # fmt: skip
