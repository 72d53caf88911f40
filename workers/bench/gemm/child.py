"""One case group in a process of its own: reads its order on stdin, writes lines of JSON on stdout.

Started by `process.py` as `python -m workers.bench.gemm.child PARENT_PID`. What it says, in order:
{"ready": {target, stack}}; {"calibration": …} where asked for; of every case {"begin": i,
"backend": null} while it looks for backends, of each of these {"begin": i, "backend": …} and {"result": i,
"measurement": …}, then {"settled": i}; {"stack": …} again, now that every library is loaded; and
{"kernel": i, "backend": …, "name": …}. {"fatal": {code, message}} means that no case can run here.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from workers.bench.cases import parse
from workers.bench.cases.base import Case
from workers.bench.document import BenchError, Measurement, Target
from workers.bench.gemm.how import How
from workers.bench.gemm.outcomes import outcome_of
from workers.bench.gemm.untimed import without_time
from workers.bench.operators.base import Operator
from workers.bench.operators.stack import observed
from workers.bench.timers.calibrate import Calibration

_PR_SET_PDEATHSIG = 1
Say = Callable[[dict[str, Any]], None]


class Device(Protocol):
    """What a device can do for a case group."""

    name: str

    def target(self) -> Target: ...
    def stack(self) -> dict[str, str]: ...
    def calibrate(self) -> Calibration: ...
    def operators(self, case: Case) -> list[Operator]: ...
    def measure(self, case: Case, operator: Operator, how: How) -> Measurement: ...
    def kernel(self, case: Case, operator: Operator) -> str | None: ...
    def sound(self) -> bool: ...
    def clean(self) -> None: ...


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; leave at once if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def own_channel() -> TextIO:
    """Keep stdout for the parent alone: whatever a library prints goes to stderr from here on."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def open_device(torch: Any, name: str, threads: int | None) -> Device:
    if name == "cuda":
        from workers.bench.gemm.cuda import Cuda

        return Cuda(torch, threads)
    from workers.bench.gemm.cpu import Cpu

    return Cpu(torch, threads)


class Lost(Exception):
    """The device works for this process no more; the parent goes on in a fresh one."""


class Group:
    """The cases of one order on one device."""

    def __init__(self, torch: Any, device: Device, how: How, say: Say) -> None:
        self._torch = torch
        self._device = device
        self._how = how
        self._say = say
        #: measured, and no name of its kernel yet
        self._nameless: list[tuple[int, Case, Operator]] = []

    def measure(self, index: int, case: Case, done: set[str]) -> None:
        """A case by every backend that is not in `done`. Raises Lost."""
        self._say({"begin": index, "backend": None})
        try:
            offered = self._device.operators(case)
        except Exception as error:  # whatever a library raises is the case's outcome
            self._failed(index, case, None, error)
        else:
            wanted = [each for each in offered if self._how.takes(each.backend)]
            if not wanted:
                self._tell(index, without_time(case, None, "unsupported", _nobody(case, offered)))
            for operator in wanted:
                if operator.backend not in done:
                    self._by(index, case, operator)
        self._say({"settled": index})

    def _by(self, index: int, case: Case, operator: Operator) -> None:
        self._say({"begin": index, "backend": operator.backend})
        try:
            measured = self._device.measure(case, operator, self._how)
        except Exception as error:
            self._failed(index, case, operator.backend, error)
        else:
            self._tell(index, measured)
            if measured.kernel is None:
                self._nameless.append((index, case, operator))
        self._device.clean()

    def _failed(self, index: int, case: Case, backend: str | None, error: Exception) -> None:
        outcome, why = outcome_of(self._torch, error)
        self._tell(index, without_time(case, backend, outcome, why))
        if not self._device.sound():
            raise Lost

    def _tell(self, index: int, measured: Measurement) -> None:
        self._say({"result": index, "measurement": dataclasses.asdict(measured)})

    def name_kernels(self) -> None:
        """It comes last: torch's profiler slows the launches of a process that has used it."""
        for index, case, operator in self._nameless:
            try:
                name = self._device.kernel(case, operator)
            except Exception as error:  # a nameless kernel is no failed measurement
                print(f"{case} by {operator.backend}: kernel name not found: {error}", file=sys.stderr)
            else:
                self._say({"kernel": index, "backend": operator.backend, "name": name})


def _nobody(case: Case, offered: list[Operator]) -> str:
    if not offered:
        return f"No library here computes {case}."
    return f"Of the backends asked for none computes {case}; here do {', '.join(x.backend for x in offered)}."


def main() -> int:
    die_with_parent(int(sys.argv[1]))
    channel = own_channel()
    order = json.loads(sys.stdin.read())
    how = How.read(order["how"])

    def say(line: dict[str, Any]) -> None:
        channel.write(json.dumps(line, allow_nan=False) + "\n")
        channel.flush()

    # torch warns on import where NumPy is missing; this bench needs none.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        import torch

        torch.set_grad_enabled(False)
        device = open_device(torch, how.device, how.threads)
        stack = {**observed(torch, how.device), **device.stack()}
        say({"ready": {"target": dataclasses.asdict(device.target()), "stack": stack}})
    except BenchError as error:
        say({"fatal": {"code": error.code, "message": error.sentence}})
        return 1

    if order["calibrate"]:
        say({"calibration": dataclasses.asdict(device.calibrate())})
    group = Group(torch, device, how, say)
    try:
        for index, row in enumerate(order["cases"]):
            case = parse.from_row(row, f"case {index}")
            group.measure(index, case, {backend for done, backend in order["done"] if done == index})
    except Lost:
        return 1
    say({"stack": {**observed(torch, how.device), **device.stack()}})
    if order["names"]:
        group.name_kernels()
    return 0


if __name__ == "__main__":
    sys.exit(main())
