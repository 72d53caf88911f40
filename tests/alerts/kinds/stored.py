"""Documents of versions and days, taken in and looked at by every kind of alert."""

from __future__ import annotations

import dataclasses

from benchapp.alerts.kinds import registry
from benchapp.alerts.models import Alert
from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from tests.trends.gemms import H200, gemm
from workers.bench.document import Document, Statistics

COMMAND = ("python", "-m", "workers.bench", "gemm", "--suite", "h200-core")
CUTLASS, CUDNN = "flashinfer.mm_bf16.cutlass", "flashinfer.mm_bf16.cudnn"


def timed(m, seconds=20e-6, *, backend=CUTLASS, kernel="", flags=(), **values):
    """A correct time with quartiles 0.5 % about it."""
    return dataclasses.replace(
        gemm(m, seconds, backend=backend, flags=flags, **values),
        statistics=Statistics(5, seconds, seconds * 0.995, seconds * 1.005, seconds * 0.99),
        kernel=kernel or None,
    )


def lost(m, outcome="unsupported", said="no kernel for this GPU", *, backend=CUTLASS):
    return dataclasses.replace(gemm(m, None, outcome=outcome, backend=backend), error=said)


def store(
    flashinfer, *measurements, day, target=H200, origin=Row.Origin.WORKER, command=COMMAND, look=True, **stack
):
    """Take in a document of a version, all measured on that day of November 2026."""
    at = f"2026-11-{day:02}T10:00:00Z"
    document = Document(
        kind="gemm",
        command=command,
        started_at=at,
        finished_at=f"2026-11-{day:02}T10:09:00Z",
        target=target,
        stack={"flashinfer": flashinfer, "torch": "2.11.0", "driver": "580"} | stack,
        measurements=tuple(dataclasses.replace(each, measured_at=at) for each in measurements),
    )
    row, _ = receive(document.dumps().encode(), origin=origin, name="gemm.json")
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    if look:
        registry.look_at_new()
    return stored


def alerts(kind):
    return list(Alert.objects.filter(kind=kind).order_by("pk"))


def the(kind):
    (alert,) = alerts(kind)
    return alert


def told(alert):
    return [entry.action for entry in alert.entries.all()]
