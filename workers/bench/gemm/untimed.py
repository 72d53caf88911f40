"""What is said of a case that brought no time."""

from __future__ import annotations

from workers.bench.cases.base import Case
from workers.bench.document import Measurement, Outcome, now


def without_time(case: Case, backend: str | None, outcome: Outcome, why: str) -> Measurement:
    """The measurement of a case that brought no time; `why` is its error, a sentence."""
    return Measurement(
        kind=case.kind,
        params=case.params,
        outcome=outcome,
        measured_at=now(),
        backend=backend,
        flops=case.work.flops,
        bytes=case.work.bytes,
        error=why,
    )
