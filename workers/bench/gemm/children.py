"""Runs case groups in child processes, so that a crash, a hang or a broken device costs one case.

The parent imports no torch and initialises no device. Call from the main thread: the children end
with the thread that started them. They inherit whatever descriptors this process inherited, a
device lease among them, so that the lease outlives this parent for as long as a child measures.
"""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from workers.bench.cases.base import Case
from workers.bench.cases.parse import as_row
from workers.bench.document import (
    BenchError,
    Correctness,
    Measurement,
    Readings,
    Statistics,
    Target,
)
from workers.bench.gemm.operands import BACKEND
from workers.bench.gemm.untimed import without_time

#: for importing torch and initialising a device from a cold disk
START_TIMEOUT_S = 300.0
NAMES_TIMEOUT_S = 60.0
LOG_TAIL = 4000
MAX_LOGS = 100
ROOT = Path(__file__).resolve().parents[3]


class StoppedError(Exception):
    """The bench was asked to stop. Raised wherever it is at by whoever handles the signal."""


@dataclasses.dataclass(slots=True)
class Results:
    """What the children of one bench run brought back."""

    target: Target | None = None
    stack: dict[str, str] = dataclasses.field(default_factory=dict)
    costs: dict[str, int | float] = dataclasses.field(default_factory=dict)
    measurements: dict[Case, Measurement] = dataclasses.field(default_factory=dict)
    logs: dict[str, str] = dataclasses.field(default_factory=dict)


def measure_groups(
    groups: list[list[Case]],
    *,
    device: str,
    threads: int | None,
    case_seconds: float,
    case_timeout_s: float,
    budget_s: float | None,
    done: Callable[[Case, Measurement], None],
) -> Results:
    """Measure every case, each group in a child of its own and anew after a child that was lost.

    `case_seconds` caps one case's sampling, `case_timeout_s` its whole time; past `budget_s` no
    case is started; after a StoppedError none either, and what was measured stays. `done` hears of each
    case in turn. Raises BenchError where no child ever became ready, since then nothing at all can be
    measured here.
    """
    results = Results()
    try:
        _measure(groups, results, device, threads, case_seconds, case_timeout_s, budget_s, done)
    except StoppedError:
        if results.target is None:
            raise BenchError("stopped", "The bench was asked to stop before anything was measured.") from None
        for case in (case for group in groups for case in group if case not in results.measurements):
            results.measurements[case] = lost(
                case, "timeout", "the bench was asked to stop before it was done"
            )
            done(case, results.measurements[case])
    return results


def _measure(
    groups: list[list[Case]],
    results: Results,
    device: str,
    threads: int | None,
    case_seconds: float,
    case_timeout_s: float,
    budget_s: float | None,
    done: Callable[[Case, Measurement], None],
) -> None:
    ends = None if budget_s is None else time.monotonic() + budget_s
    waiting = sum(len(group) for group in groups)
    for group in groups:
        left = list(group)
        while left:
            seconds = case_seconds
            if ends is not None:
                remaining = ends - time.monotonic()
                if remaining <= 0:
                    for case in left:
                        results.measurements[case] = lost(case, "timeout", _spent(budget_s))
                        done(case, results.measurements[case])
                    waiting -= len(left)
                    break
                seconds = min(case_seconds, remaining / waiting)
            child = Child(left, device, threads, seconds, first=results.target is None)
            with child:
                measured = _follow(child, left, results, case_timeout_s, ends, done)
            waiting -= measured
            left = left[measured:]


def _follow(
    child: Child,
    cases: list[Case],
    results: Results,
    case_timeout_s: float,
    ends: float | None,
    done: Callable[[Case, Measurement], None],
) -> int:
    """Take what one child says until it ends or is ended; the number of cases that are settled."""
    settled, running, limit = 0, False, START_TIMEOUT_S
    fatal: str | None = None
    while (line := child.next_line(limit)) is not None:
        match line:
            case {"ready": told}:
                results.target = results.target or Target(**told["target"])
                results.stack.update(told["stack"])
                results.costs.update(told["costs"])
            case {"begin": _}:
                running, limit = True, case_timeout_s
            case {"result": index, "measurement": told}:
                settled, running, limit = settled + 1, False, NAMES_TIMEOUT_S
                results.measurements[cases[index]] = rebuild(told)
                done(cases[index], results.measurements[cases[index]])
                if ends is not None and time.monotonic() > ends and settled < len(cases):
                    return settled
            case {"kernel": index, "name": name}:
                named = dataclasses.replace(results.measurements[cases[index]], kernel=name)
                results.measurements[cases[index]] = named
            case {"fatal": told}:
                if results.target is None:
                    raise BenchError(told["code"], told["message"])
                fatal = told["message"]
    if settled == len(cases) or (settled and not running):
        return settled  # whoever is left has not begun, and goes on in a fresh child
    why = fatal or (f"no answer within {limit:g} s" if child.timed_out else child.epitaph())
    if results.target is None:
        raise BenchError("bench_start", f"The bench could not start: {why}.")
    lost_one = cases[settled]
    log = child.log().strip()
    if log and len(results.logs) < MAX_LOGS:
        results.logs[f"gemm {lost_one}"] = log
    results.measurements[lost_one] = lost(lost_one, "timeout" if child.timed_out else "crashed", why)
    done(lost_one, results.measurements[lost_one])
    return settled + 1


class Child:
    """One child process, its lines with time limits, and what is known of its end."""

    def __init__(
        self, cases: list[Case], device: str, threads: int | None, seconds: float, *, first: bool
    ) -> None:
        order = {"device": device, "threads": threads, "seconds": seconds, "first": first}
        self._order = json.dumps({**order, "cases": [as_row(case) for case in cases]})
        self._threads = threads
        self._buffer = b""
        self.timed_out = False

    def __enter__(self) -> Child:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        if self._threads is not None:
            environment["OMP_NUM_THREADS"] = str(self._threads)
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workers.bench.gemm.child", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            close_fds=False,  # an inherited device lease goes on to the one that measures
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(self._order.encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; the lines that never come say so
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._selector.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def next_line(self, limit_s: float) -> dict[str, Any] | None:
        """The next line, or None once the child has ended or stayed silent for `limit_s` and was ended."""
        assert self._process.stdout is not None
        ends = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, ends - time.monotonic())):
                self.timed_out = True
                self._end()
                return None
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                self._end(grace_s=10)
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def log(self) -> str:
        """The last LOG_TAIL characters of its stderr."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - LOG_TAIL))
        return self._errors.read().decode("utf-8", errors="replace")

    def epitaph(self) -> str:
        """How it ended, as part of a sentence."""
        code = self._process.poll()
        how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
        last = next((line for line in reversed(self.log().splitlines()) if line.strip()), "")
        said = f", last saying {last.strip()[:300]!r}" if last else ""
        return f"its process ended with {how}{said}"

    def _end(self, grace_s: float = 0) -> None:
        """See it ended: by itself within `grace_s`, else by SIGKILL."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def lost(case: Case, outcome: Literal["timeout", "crashed"], why: str) -> Measurement:
    """The measurement of a case whose process brought nothing back."""
    return without_time(case, BACKEND, outcome, f"{case}: {why.rstrip('.')}.")


def _spent(budget_s: float | None) -> str:
    return f"not started, the budget of {budget_s:g} s was spent"


def rebuild(told: dict[str, Any]) -> Measurement:
    """A Measurement from the JSON of its dataclass."""
    parts = {"statistics": Statistics, "host_time": Statistics, "correctness": Correctness}
    for name, kind in parts.items():
        if told[name] is not None:
            told[name] = kind(**told[name])
    if told["readings"] is not None:
        reasons = tuple(told["readings"].pop("throttle_reasons"))
        told["readings"] = Readings(**told["readings"], throttle_reasons=reasons)
    return Measurement(**{**told, "samples": tuple(told["samples"]), "flags": tuple(told["flags"])})
