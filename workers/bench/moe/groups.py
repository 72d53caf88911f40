"""Gangs, one after the other: which cases each has, its limits, and what becomes of each case. Imports no
torch."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from workers.bench.cases.base import Case
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.parse import as_row
from workers.bench.document import BenchError, Measurement, Outcome, Target
from workers.bench.gemm.results import Results
from workers.bench.gemm.untimed import without_time
from workers.bench.moe import capacity, fit, told
from workers.bench.moe.collectives import backends as collective_backends
from workers.bench.moe.gang import MODULE, Gang, LostError
from workers.bench.stopping import StoppedError
from workers.bench.timers.calibrate import Calibration

#: for importing torch and initialising a device from a cold disk; for ranks to find one another
START_TIMEOUT_S = 300.0
#: for drawing weights and checking them
LOAD_TIMEOUT_S = 300.0
#: beyond the budget, in which what was timed may still be traced
TRACE_RESERVE_S = 20.0
#: cap on one collective's sampling
COLLECTIVE_S = 2.0
#: of a document
MAX_NOTES = 90


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """`case_s` caps the whole time of a case by one backend, its trace apart; past `budget_s` nothing is
    started."""

    case_s: float
    budget_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class How:
    """`backends` are "attention+experts" of models and the names of collectives; `steps` are timed of each
    case, for at most `seconds`."""

    device: Literal["cpu", "cuda"]
    backends: tuple[str, ...]
    steps: int
    seconds: float
    #: of a CPU's rank; None: its share of the cores
    threads: int | None = None

    def of(self, case: Case) -> tuple[str, ...]:
        """The backends that a case is measured by."""
        if isinstance(case, (Decode, Prefill)):
            return tuple(name for name in self.backends if "+" in name)
        offered = collective_backends(case.kind, self.device)
        named = [name for name in self.backends if "+" not in name]
        return tuple(named) or offered


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Cases of one backend that share weights, or a number of ranks."""

    backend: str
    cases: tuple[Case, ...]

    @property
    def world(self) -> int:
        first: Any = self.cases[0]
        return first.layout.gpus if isinstance(first, (Decode, Prefill)) else first.ranks

    @property
    def models(self) -> bool:
        return isinstance(self.cases[0], (Decode, Prefill))


def in_groups(cases: Iterable[Case], how: How) -> list[Group]:
    """In the order in which their first cases come; each backend's after the other's."""
    found: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        for backend in how.of(case):
            models = isinstance(case, (Decode, Prefill))
            found.setdefault((models, case.weight, backend), []).append(case)
    return [Group(key[-1], tuple(members)) for key, members in found.items()]


def measure(
    cases: Sequence[Case],
    how: How,
    limits: Limits,
    *,
    done: Callable[[Case, Measurement, int], None],
    module: str = MODULE,
) -> tuple[Results, list[str]]:
    """Every case by each of its backends, and notes on them. Raises BenchError where no gang ever started,
    since nothing can be measured here; after a StoppedError none is started, and what was measured stays.
    """
    groups = in_groups(cases, how)
    if not groups:
        raise BenchError(
            "no_backend", f"Backends {', '.join(how.backends)[:200]}: none of them computes any of the cases."
        )
    results = Results(done)
    left = "the bench was asked to stop before it was done"
    run = _Run(results, how, limits, module)
    try:
        for group in groups:
            run.group(group)
        left = f"not measured, the budget of {limits.budget_s or 0:g} s was spent"
    except StoppedError:
        if results.target is None:
            raise BenchError("stopped", "The bench was asked to stop before anything was measured.") from None
    if results.target is None:
        raise BenchError("bench_start", f"The bench could not start: {left}.")
    for case in cases:
        for backend in how.of(case) or (None,):
            if backend not in results.taken.get(case, {}):
                why = left if backend else "no backend that was asked for computes it"
                outcome: Outcome = "timeout" if backend else "unsupported"
                results.take(case, without_time(case, backend, outcome, f"{case}: {why}."))
    return results, run.notes


class _Run:
    """One bench run's gangs."""

    def __init__(self, results: Results, how: How, limits: Limits, module: str) -> None:
        self._results = results
        self._how = how
        self._limits = limits
        self._module = module
        self._ends = None if limits.budget_s is None else time.monotonic() + limits.budget_s
        self.notes: list[str] = []

    def group(self, group: Group) -> None:
        """By as many gangs as it takes."""
        left = list(group.cases)
        while left and not self._spent():
            before = len(left)
            self._gang(group, left)
            left = [case for case in left if group.backend not in self._results.taken.get(case, {})]
            assert len(left) < before or self._spent(), "a gang settles a case at least"

    def _spent(self, late_s: float = 0.0) -> bool:
        return self._ends is not None and time.monotonic() >= self._ends + late_s

    def _gang(self, group: Group, left: list[Case]) -> None:
        """One gang, and what it does of `left` until something goes wrong: that case is then settled too."""
        # a gang that does not even come together settles them all: the next would not either
        at: list[Case] = list(left)
        with Gang(group.world, self._how.device, self._module) as gang:
            try:
                memory = self._start(gang, group, left)
                if memory is None:
                    return
                if group.models:
                    self._models(gang, group, left, memory, at)
                else:
                    for case in left:
                        if self._spent():
                            return
                        at[:] = [case]
                        self._exchange(gang, group, case)
            except LostError as lost:
                if self._results.target is None:
                    said = lost.why if lost.code else f"The bench could not start: {lost.why}"
                    raise BenchError(lost.code or "bench_start", f"{said}.") from None
                name = f"moe {at[0]} {group.backend}"
                self._results.log(name, gang.log())
                for case in left if lost.everywhere else at:
                    if group.backend not in self._results.taken.get(case, {}):
                        self._lost(case, group.backend, lost.outcome, lost.why)

    def _start(self, gang: Gang, group: Group, left: list[Case]) -> int | None:
        """Bytes free on the fullest device, once the ranks have found one another; None where there are too
        few devices, which settles every case."""
        answers = gang.ask({"start": {"threads": self._how.threads}}, START_TIMEOUT_S)
        results, first = self._results, answers[0]
        gpus, target = int(first["devices"]), Target(**first["target"])
        if results.target is None or _gpus(target) > _gpus(results.target):
            results.target = target
        results.stack.update(first["stack"])
        if gpus < group.world:
            seen = "1 GPU is" if gpus == 1 else f"{gpus} GPUs are"
            for case in left:
                self._lost(
                    case, group.backend, "unsupported", f"{group.world} GPUs are needed, and {seen} here"
                )
            return None
        gang.ask({"join": {}}, START_TIMEOUT_S)
        return min(int(each["memory_bytes"]) for each in answers)

    def _models(self, gang: Gang, group: Group, left: list[Case], memory: int, at: list[Case]) -> None:
        """Those of `left` that share one decoder."""
        fitting = [
            case
            for case in left
            if isinstance(case, (Decode, Prefill)) and self._fits(case, group.backend, memory)
        ]
        if not fitting:
            return
        room, cases = capacity.together(
            fitting,
            self._how.steps,
            lambda room, prefill: self._estimate(fitting[0], room, prefill, memory).fits,
        )
        at[:] = cases[:1]
        question: dict[str, Any] = {"case": as_row(cases[0]), "backend": group.backend, "room": room}
        loaded = gang.ask({"load": question}, LOAD_TIMEOUT_S)[0]
        self._results.stack.update(loaded["stack"])
        if loaded["floor"] is not None:
            self._results.calibration = Calibration({"cuda_graph": loaded["floor"]}, {})
        pending: dict[Decode | Prefill, Measurement] = {}
        try:
            for case in cases:
                if self._spent():
                    break
                at[:] = [case]
                question = {"case": as_row(case), "steps": self._how.steps, "seconds": self._how.seconds}
                answer = gang.ask({"measure": question}, self._limits.case_s)[0]
                pending[case] = told.rebuild(answer["measurement"])
            for case in list(pending):
                if self._spent(TRACE_RESERVE_S):
                    break
                at[:] = [case]
                step = pending[case].step
                question = {"case": as_row(case), "steps": step.steps if step else 0}
                trace = gang.ask({"trace": question}, self._limits.case_s)[0]["trace"]
                if "untraced" in trace:
                    self._untraced(case, group.backend, trace["untraced"])
                else:
                    pending[case] = told.with_trace(pending[case], trace)
                self._settle(case, pending.pop(case))
        except LostError as lost:
            case = at[0]  # type: ignore[assignment]
            if case not in pending:
                raise
            self._results.log(f"moe {case} {group.backend} trace", gang.log())
            self._untraced(case, group.backend, lost.why)
            self._settle(case, pending.pop(case))
        finally:
            # A whole model's window stays, whatever became of its trace; a slice is nothing without one, and
            # is for the next gang.
            for case, waiting in pending.items():
                if told.stands(waiting):
                    self._settle(case, waiting)

    def _untraced(self, case: Case, backend: str, why: str) -> None:
        self._note(f"{case} by {backend} was not traced: {why.rstrip('.')}.")

    def _settle(self, case: Case, measured: Measurement) -> None:
        measured = told.complete(measured)
        sentence = told.disagreement(measured)
        if sentence is not None:
            self._note(sentence)
        self._take(case, measured)

    def _fits(self, case: Case, backend: str, memory: int) -> bool:
        """Whether a case fits alone; one that does not is settled."""
        assert isinstance(case, (Decode, Prefill))
        room = capacity.room(case, self._how.steps)
        found = self._estimate(case, room, isinstance(case, Prefill), memory)
        if not found.fits:
            self._lost(case, backend, "oom", f"not started, {found.sentence}")
        return found.fits

    def _estimate(self, case: Case, room: capacity.Room, prefill: bool, memory: int) -> fit.Estimate:
        assert isinstance(case, (Decode, Prefill))
        return fit.estimate(
            case.layout,
            *room,
            memory,
            phase="prefill" if prefill else "decode",
            fixed_bytes=fit.FIXED_BYTES if self._how.device == "cuda" else fit.CPU_FIXED_BYTES,
        )

    def _exchange(self, gang: Gang, group: Group, case: Case) -> None:
        seconds = min(COLLECTIVE_S, self._how.seconds)
        question = {"case": as_row(case), "backend": group.backend, "seconds": seconds}
        answer = gang.ask({"exchange": question}, self._limits.case_s)[0]
        self._results.stack.update(answer["stack"])
        self._take(case, told.rebuild(answer["measurement"]))

    def _lost(self, case: Case, backend: str, outcome: Outcome, why: str) -> None:
        self._take(case, without_time(case, backend, outcome, f"{case}: {why.rstrip('.')}."))

    def _take(self, case: Case, measured: Measurement) -> None:
        self._results.settled += 1
        self._results.take(case, measured)

    def _note(self, sentence: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(sentence[:500])


def _gpus(target: Target) -> int:
    found = target.properties.get("gpus", 0)
    return found if isinstance(found, int) else 0
