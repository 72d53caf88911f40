"""Documents for these tests, as a bench would write them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from workers.bench.document import Correctness, Document, Measurement, Statistics, Target

GOOD = Correctness("float64", 0.999999, 1e-3, 0, 0, 256, 1e-2)


def measurement(
    m: int = 16, *, median: float = 1e-3, day: int = 1, hour: int = 0, **values: Any
) -> Measurement:
    return Measurement(
        **{
            "kind": "gemm",
            "params": {"m": m, "n": 1024, "k": 1024, "dtype": "bf16", "layout": "nt"},
            "outcome": "ok",
            "measured_at": f"2026-11-{day:02}T{hour:02}:00:00.000Z",
            "samples": (median, median * 1.01),
            "statistics": Statistics(2, median, median, median * 1.01, median),
            "timer": "wall_clock",
            "backend": "torch",
            "flops": 2.0 * m * 1024 * 1024,
            "bytes": 2.0 * (m * 1024 * 2 + 1024 * 1024),
            "correctness": GOOD,
            **values,
        }
    )


def gemm(*measurements: Measurement, target: Target | None = None, torch: str = "2.13.0") -> Document:
    return Document(
        kind="gemm",
        command=("python", "-m", "workers.bench", "gemm"),
        started_at="2026-11-01T00:00:00.000Z",
        finished_at="2026-11-01T00:01:00.000Z",
        target=target or Target("cpu", "x86_64", model="Test CPU", host="here"),
        stack={"torch": torch, "python": "3.11.7"},
        measurements=measurements or (measurement(),),
    )


def body(document: Document) -> bytes:
    return document.dumps().encode()


def broken(document: Document, path: list[str | int], value: Any) -> bytes:
    """The document's bytes with one value put in (or, for the value `...`, one field taken out)."""
    content = json.loads(document.dumps())
    place = content
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(content).encode()


def fields(of: type) -> set[str]:
    return {field.name for field in dataclasses.fields(of)}
