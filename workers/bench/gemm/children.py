"""Runs case groups in child processes, so that a crash, a hang or a broken device costs one case and backend.

The parent imports no torch and initialises no device. Call from the main thread: the children end
with the thread that started them. They inherit whatever descriptors this process inherited, a
device lease among them, so that the lease outlives this parent for as long as a child measures.
"""

from __future__ import annotations

import dataclasses
import time

from workers.bench.cases.base import Case
from workers.bench.document import BenchError, Measurement, Target
from workers.bench.gemm.how import How
from workers.bench.gemm.process import MODULE, Child, Order
from workers.bench.gemm.results import Done, Results, lost, rebuild
from workers.bench.stopping import StoppedError
from workers.bench.timers.calibrate import Calibration

#: for importing torch and initialising a device from a cold disk
START_TIMEOUT_S = 300.0
#: between two things that a child says: its libraries load, buffers are freed, a profiler starts
PAUSE_TIMEOUT_S = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """`case_timeout_s` caps the whole time of a case by one backend; past `budget_s` nothing is started."""

    case_timeout_s: float
    budget_s: float | None = None


def measure_groups(
    groups: list[list[Case]],
    how: How,
    limits: Limits,
    *,
    processes: int,
    done: Done,
    module: str = MODULE,
    calibrate: bool = True,
) -> Results:
    """Measure every case by every backend, each group in `processes` fresh children, one after the other.

    A child that was lost is followed by another, which goes on behind the case and backend that it was at.
    After a StoppedError none is started, and what was measured stays. Raises BenchError where no child ever
    became ready, since then nothing at all can be measured here.
    """
    results = Results(done)
    rounds = _Rounds(results, how, limits, processes * sum(map(len, groups)), module)
    left = "the bench was asked to stop before it was done"
    try:
        if calibrate:
            rounds.calibrate()
        for number in range(processes):
            for group in groups:
                rounds.run(group, number)
        left = f"not started, the budget of {limits.budget_s or 0:g} s was spent"
    except StoppedError:
        if results.target is None:
            raise BenchError("stopped", "The bench was asked to stop before anything was measured.") from None
    for case in (case for group in groups for case in group if case not in results.taken):
        for backend in how.expected:
            results.take(case, lost(case, backend, "timeout", left))
    return results


class _Rounds:
    """One bench run's children, one after the other."""

    def __init__(self, results: Results, how: How, limits: Limits, waiting: int, module: str) -> None:
        self._results = results
        self._how = how
        self._limits = limits
        self._module = module
        self._ends = None if limits.budget_s is None else time.monotonic() + limits.budget_s
        #: case rounds that are not settled
        self._waiting = waiting
        #: the most backends that a case was seen to have
        self._widest = 1

    def calibrate(self) -> None:
        """In a child of its own: the launch floors of a GPU, and what its timers add to a kernel."""
        if self._how.device == "cpu":
            return
        self._follow(Order([], self._how, calibrate=True, module=self._module), set())
        self._how = dataclasses.replace(self._how, overheads=self._results.calibration.overheads)

    def run(self, group: list[Case], number: int) -> None:
        """A group once, by as many children as it takes; `number` of its processes came before."""
        done = {(case, name) for case in group for name in self._results.hopeless(case)}
        left = [case for case in group if number == 0 or self._promising(case)]
        self._settle(len(group) - len(left))
        while left and self._remaining() > 0:
            seconds = min(self._how.seconds, self._remaining() / (self._waiting * self._widest))
            order = Order(
                left,
                dataclasses.replace(self._how, seconds=seconds),
                done=tuple((left.index(case), name) for case, name in done if name and case in left),
                names=number == 0,
                module=self._module,
            )
            settled = self._follow(order, done)
            left = [case for index, case in enumerate(left) if index not in settled]
        self._settle(len(left))

    def _promising(self, case: Case) -> bool:
        return set(self._results.taken.get(case, {})) != set(self._results.hopeless(case))

    def _remaining(self) -> float:
        return float("inf") if self._ends is None else self._ends - time.monotonic()

    def _settle(self, count: int) -> None:
        self._waiting -= count
        self._results.settled += count

    def _follow(self, order: Order, done: set[tuple[Case, str | None]]) -> set[int]:
        """Take what one child says until it ends or is ended, and add to `done`; the cases that are settled.

        Every child settles something, or adds to `done`: what it was at when it was lost, at least.
        """
        results, cases = self._results, order.cases
        settled: set[int] = set()
        before = len(done)
        running: tuple[int, str | None] | None = None
        fatal: str | None = None
        limit = START_TIMEOUT_S

        def take(index: int, measured: Measurement) -> None:
            case = cases[index]
            done.add((case, measured.backend))
            if measured.backend is None:
                settle(index)
            results.take(case, measured)
            self._widest = max(self._widest, len(results.taken[case]))

        def settle(index: int) -> None:
            if index not in settled:
                settled.add(index)
                self._settle(1)

        with Child(order) as child:
            while (line := child.next_line(limit)) is not None:
                limit = PAUSE_TIMEOUT_S
                match line:
                    case {"ready": told}:
                        results.target = results.target or Target(**told["target"])
                        results.stack.update(told["stack"])
                    case {"calibration": told}:
                        results.calibration = Calibration(**told)
                    case {"begin": index, "backend": backend}:
                        running = index, backend
                        if backend is not None:
                            limit = self._limits.case_timeout_s
                    case {"result": index, "measurement": told}:
                        running = None
                        take(index, rebuild(told))
                        if self._remaining() <= 0:
                            return settled
                    case {"settled": index}:
                        running = None
                        settle(index)
                    case {"stack": told}:
                        results.stack.update(told)
                    case {"kernel": index, "backend": backend, "name": name}:
                        results.name(cases[index], backend, name)
                    case {"fatal": told}:
                        if results.target is None:
                            raise BenchError(told["code"], told["message"])
                        fatal = told["message"]
            why = fatal or (f"no answer within {limit:g} s" if child.timed_out else child.epitaph())
            log = child.log().strip()
            timed_out = child.timed_out
        if results.target is None:
            raise BenchError("bench_start", f"The bench could not start: {why}.")
        if running is None and (not cases or settled or len(done) > before):
            return settled  # whoever is left has not begun, and goes on in a fresh child
        index, backend = running or (0, None)
        case = cases[index]
        results.log(f"gemm {case}" + (f" {backend}" if backend else ""), log)
        take(index, lost(case, backend, "timeout" if timed_out else "crashed", why))
        return settled
