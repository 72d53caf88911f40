"""Nights of measurements for these tests, taken in the way every document is."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from benchapp.runs.models import Run
from workers.bench.document import Correctness, Document, Flag, Measurement, Statistics, Target

FIRST = dt.datetime(2026, 9, 1, 2, tzinfo=dt.UTC)
OWN = "flashinfer.mm_bf16.cutlass"
#: Edge of the square product that is a reference case.
SQUARE = 8192


def gpu(name: str = "a", host: str = "box", model: str = "NVIDIA H200") -> Target:
    return Target(kind="gpu", arch="sm90", model=model, uuid=f"GPU-{name}", host=host)


def noisy(seconds: float, seed: object, spread: float = 0.005) -> float:
    """The same for the same seed, so that no test depends on luck."""
    return seconds * (1 + random.Random(str(seed)).gauss(0, spread))


def measured(
    m: int,
    seconds: float,
    at: dt.datetime,
    *,
    backend: str = OWN,
    flags: tuple[Flag, ...] = (),
    square: bool = False,
) -> Measurement:
    n, k = (m, m) if square else (4096, 7168)
    return Measurement(
        kind="gemm",
        params={"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "nt"},
        outcome="ok",
        measured_at=at.isoformat(),
        samples=(seconds,) * 3,
        statistics=Statistics(3, seconds, seconds, seconds, seconds),
        timer="cupti",
        l2_policy="rotated",
        backend=backend,
        flops=2.0 * m * n * k,
        bytes=2.0 * (m * k + n * k + m * n),
        correctness=Correctness("float64", 1.0, 0.001, 0, 0, m * n, 0.008),
        flags=flags,
    )


def night(day: float, times: Mapping[int, float], **how: Any) -> Row:
    """Take in one night: M → seconds of products 4096 × 7168."""
    return taken([day], lambda _, m: times[m], list(times), **how)


def nights(days: Iterable[float], levels: Mapping[int, float], **how: Any) -> Row:
    """Take in successive nights of these levels, each point with its own noise; in one document."""
    who = how.get("target")
    return taken(list(days), lambda day, m: noisy(levels[m], (day, who, m)), list(levels), **how)


def taken(
    days: list[float],
    seconds: Callable[[float, int], float],
    sizes: list[int],
    *,
    target: Target | None = None,
    flashinfer: str = "0.6.9",
    cutlass: str = "4.4.2",
    backend: str = OWN,
    flags: tuple[Flag, ...] = (),
    reference: float | None = None,
    origin: Row.Origin = Row.Origin.FILE,
    run: Run | None = None,
) -> Row:
    """Take in one document; with `reference` it has the reference case too, at about so many seconds."""
    items = []
    for day in days:
        at = FIRST + dt.timedelta(days=day)
        items += [measured(m, seconds(day, m), at, backend=backend, flags=flags) for m in sizes]
        if reference is not None:
            near = noisy(reference, (day, target, "reference"))
            items.append(measured(SQUARE, near, at, backend="torch.mm", square=True))
    document = Document(
        kind="gemm",
        command=("python", "-m", "workers.bench", "gemm"),
        started_at=items[0].measured_at,
        finished_at=items[-1].measured_at,
        target=target or gpu(),
        stack={"torch": "2.11.0", "python": "3.12.3", "flashinfer": flashinfer, "cutlass": cutlass},
        measurements=tuple(items),
    )
    row, _ = receive(document.dumps().encode(), origin=origin, name="night.json", run=run)
    stored = ingest(row.pk)
    assert stored.state == Row.State.ACCEPTED, stored.fault
    return stored
