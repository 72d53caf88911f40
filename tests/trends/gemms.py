"""GEMM documents for tests, stored the way every document is."""

from __future__ import annotations

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from workers.bench import roofline
from workers.bench.document import Correctness, Document, Measurement, Statistics, Target

H200 = Target(kind="gpu", arch="sm90", model="NVIDIA H200", uuid="GPU-1", host="box")
CPU = Target(kind="cpu", arch="x86_64", model="Some CPU", host="box")
STRANGER = Target(kind="gpu", arch="sm99", model="NVIDIA Unheard Of", uuid="GPU-2", host="box")


def gemm(
    m,
    seconds,
    *,
    n=4096,
    k=7168,
    dtype="bf16",
    outcome="ok",
    at="2026-11-20T10:00:00Z",
    flags=(),
    backend="torch.mm",
):
    """One measurement; `seconds` None for one that has no time."""
    return Measurement(
        kind="gemm",
        params={"m": m, "n": n, "k": k, "dtype": dtype, "layout": "nt"},
        outcome=outcome,
        measured_at=at,
        samples=() if seconds is None else (seconds,) * 5,
        statistics=None
        if seconds is None
        else Statistics(5, seconds, seconds * 0.99, seconds * 1.02, seconds * 0.98),
        timer=None if seconds is None else "cuda_graph",
        l2_policy="rotated",
        backend=backend,
        flops=roofline.gemm_flops(m, n, k),
        bytes=roofline.gemm_bytes(m, n, k, dtype, dtype, dtype),
        correctness=Correctness("float64", 1.0, 0.001, 0, 0, m * n, 0.008) if outcome == "ok" else None,
        flags=flags,
        error=None if outcome == "ok" else f"it was {outcome}",
    )


def store(*measurements, target=H200, torch="2.11.0", origin=Row.Origin.FILE, run=None, day=20):
    document = Document(
        kind="gemm",
        command=("python", "-m", "workers.bench", "gemm"),
        started_at=f"2026-11-{day:02}T09:59:00Z",
        finished_at=f"2026-11-{day:02}T10:09:00Z",
        target=target,
        stack={"torch": torch, "python": "3.12.3"},
        measurements=measurements,
    )
    row, _ = receive(document.dumps().encode(), origin=origin, name="gemm.json", run=run)
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored
