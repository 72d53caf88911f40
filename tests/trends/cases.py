"""Documents of cases of any kind, stored the way every document is."""

from __future__ import annotations

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from workers.bench.cases.parse import from_text
from workers.bench.document import Correctness, Document, Measurement, Readings, Statistics, Target

RTX = Target(
    kind="gpu",
    arch="sm120",
    model="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    uuid="GPU-rtx",
    host="box",
)
FLOOR = 1.2e-6


def timed(
    text,
    seconds,
    *,
    backend="flashinfer.mm_fp4.cutlass",
    outcome="ok",
    flags=(),
    timer="cupti",
    l2="flushed",
    clock=None,
    error="",
):
    """One measurement of a case written as "16x4096x6144:nvfp4" or "rmsnorm:tokens=64,…"."""
    case = from_text(text)
    good = outcome == "ok"
    return Measurement(
        kind=case.kind,
        params=case.params,
        outcome=outcome,
        measured_at="2026-11-20T10:00:00Z",
        samples=() if seconds is None else (seconds,) * 5,
        statistics=None
        if seconds is None
        else Statistics(5, seconds, seconds * 0.99, seconds * 1.02, seconds * 0.98),
        host_time=None if seconds is None else Statistics(5, 12e-6, 11e-6, 14e-6, 10e-6),
        timer=None if seconds is None else timer,
        l2_policy=l2,
        backend=backend,
        flops=case.work.flops,
        bytes=case.work.bytes,
        correctness=Correctness("float64", 1.0, 0.001, 0, 0, 100, 0.008) if good else None,
        readings=Readings(clock, clock, clock, 500.0, 50.0) if clock else None,
        flags=flags,
        error=None if good else error or f"it was {outcome}",
    )


def floor(timer, seconds=FLOOR):
    return timed(f"empty_kernel:timer={timer}", seconds, backend="", timer=timer)


def put(*measurements, flashinfer="0.6.18.post1", kind="gemm", target=RTX, costs=None, **stack):
    """A document of these in a stack, taken in."""
    document = Document(
        kind=kind,
        command=("python", "-m", "workers.bench", "gemm"),
        started_at="2026-11-20T09:59:00Z",
        finished_at="2026-11-20T10:09:00Z",
        target=target,
        stack={"flashinfer": flashinfer, "torch": "2.11.0", "driver": "580"} | stack,
        measurements=measurements,
        costs=costs or {},
    )
    row, _ = receive(document.dumps().encode(), origin=Row.Origin.FILE, name="cases.json")
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored
