"""What the device does at best. The empty kernel is the harness's own: its time is a property of a timer."""

from __future__ import annotations

from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.ceiling import Copy
from workers.bench.document import Correctness
from workers.bench.operators.base import Operator, Ready
from workers.bench.operators.correctness import Tally
from workers.bench.operators.support import Simple, device

BYTES_AT_ONCE = 2**25


def operators(torch: Any, case: Case) -> list[Operator]:
    """torch's copy between two buffers."""
    return [Simple("torch.copy_", _copy)] if isinstance(case, Copy) else []


def _copy(torch: Any, case: Copy) -> Ready:
    where = device(torch)
    source = torch.empty(case.bytes, dtype=torch.uint8, device=where).random_(0, 255)
    out = torch.empty_like(source)

    def call() -> tuple[Any, ...]:
        out.copy_(source)
        return (out,)

    def check(made: tuple[Any, ...]) -> Correctness:
        tally = Tally()
        for got, given in zip(made[0].split(BYTES_AT_ONCE), source.split(BYTES_AT_ONCE), strict=True):
            tally.count(got)
            tally.compare(got, given)
        return tally.correctness("the bytes copied from", 0.0)

    return Ready(call, check, "uniform bytes from 0 to 254, fresh")
