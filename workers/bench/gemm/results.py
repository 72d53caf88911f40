"""What the children of one bench run brought back, and how it becomes measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from workers.bench.cases.base import Case
from workers.bench.document import Correctness, Measurement, Readings, Statistics, Target
from workers.bench.gemm.pooling import pool
from workers.bench.gemm.untimed import without_time
from workers.bench.timers.calibrate import Calibration

MAX_LOGS = 100
#: hears of each measurement as it comes, and how many case rounds are settled
Done = Callable[[Case, Measurement, int], None]


@dataclasses.dataclass(slots=True)
class Results:
    """`taken` holds a measurement a process of each case and backend."""

    done: Done
    target: Target | None = None
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    calibration: Calibration = dataclasses.field(default_factory=lambda: Calibration({}, {}))
    taken: dict[Case, dict[str | None, list[Measurement]]] = dataclasses.field(default_factory=dict)
    logs: dict[str, str] = dataclasses.field(default_factory=dict)
    settled: int = 0

    def take(self, case: Case, measured: Measurement) -> None:
        self.taken.setdefault(case, {}).setdefault(measured.backend, []).append(measured)
        self.done(case, measured, self.settled)

    def name(self, case: Case, backend: str, kernel: str | None) -> None:
        """Say the kernel of the latest measurement of a case by `backend`."""
        latest = self.taken[case][backend]
        latest[-1] = dataclasses.replace(latest[-1], kernel=kernel)

    def log(self, name: str, text: str) -> None:
        if text and len(self.logs) < MAX_LOGS:
            self.logs[name] = text

    def hopeless(self, case: Case) -> tuple[str | None, ...]:
        """Backends of a case that brought no time in an earlier process, and would not in another."""
        of_case = self.taken.get(case, {})
        return tuple(name for name, taken in of_case.items() if not taken[-1].samples)

    def of(self, case: Case) -> list[Measurement]:
        """The measurements of a case, one a backend, in the order in which these were found."""
        return [pool(taken) for taken in self.taken.get(case, {}).values()]


def lost(case: Case, backend: str | None, outcome: Literal["timeout", "crashed"], why: str) -> Measurement:
    """The measurement of a case whose process brought nothing back."""
    return without_time(case, backend, outcome, f"{case}: {why.rstrip('.')}.")


def rebuild(told: dict[str, Any]) -> Measurement:
    """A Measurement from the JSON of its dataclass."""
    parts = {"statistics": Statistics, "host_time": Statistics, "correctness": Correctness}
    for name, kind in parts.items():
        if told[name] is not None:
            told[name] = kind(**told[name])
    if told["readings"] is not None:
        reasons = tuple(told["readings"].pop("throttle_reasons"))
        told["readings"] = Readings(**told["readings"], throttle_reasons=reasons)
    lists = ("samples", "flags", "process_medians", "process_host_medians", "routing")
    return Measurement(**{**told, **{name: tuple(told[name]) for name in lists}})
