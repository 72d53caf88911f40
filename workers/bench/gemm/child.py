"""One case group in a process of its own: reads its order on stdin, writes lines of JSON on stdout.

Started by `children.py` as `python -m workers.bench.gemm.child PARENT_PID`. What it says, in order:
{"ready": {target, stack, costs}}, then per case {"begin": i} and {"result": i, "measurement": …},
then {"kernel": i, "name": …}. {"fatal": {code, message}} means that no case can run here.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
import warnings
from typing import Any, Protocol, TextIO

from workers.bench.cases import parse
from workers.bench.cases.gemm import Gemm as Case
from workers.bench.document import BenchError, Measurement, Outcome, Target
from workers.bench.gemm.operands import BACKEND, DoesNotFitError
from workers.bench.gemm.untimed import without_time
from workers.bench.gemm.versions import torch_stack

_PR_SET_PDEATHSIG = 1


class Device(Protocol):
    """What a device can do for a case group."""

    name: str

    def target(self) -> Target: ...
    def stack(self) -> dict[str, str]: ...
    def costs(self) -> dict[str, float]: ...
    def measure(self, case: Case, seconds: float) -> Measurement: ...
    def kernel(self, case: Case) -> str | None: ...


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


def failure(torch: Any, case: Case, error: Exception) -> tuple[Measurement, bool]:
    """The measurement of a case that raised, and whether the device is broken for this process."""
    text = " ".join(str(error).split())[:500] or type(error).__name__
    lowered = text.lower()
    outcome: Outcome
    sticky = False
    if (
        isinstance(error, (DoesNotFitError, MemoryError, torch.OutOfMemoryError))
        or "can't allocate memory" in lowered
    ):
        outcome = "oom"
    elif isinstance(error, NotImplementedError) or "not implemented for" in lowered:
        outcome = "unsupported"
    else:
        outcome = "launch_failed"
        sticky = "cuda" in lowered or "cublas" in lowered
    return without_time(case, BACKEND, outcome, text), sticky


def open_device(torch: Any, name: str, threads: int | None) -> Device:
    if name == "cuda":
        from workers.bench.gemm.cuda import Cuda

        return Cuda(torch, threads)
    from workers.bench.gemm.cpu import Cpu

    return Cpu(torch, threads)


def main() -> int:
    die_with_parent(int(sys.argv[1]))
    channel = own_channel()
    order = json.loads(sys.stdin.read())

    def say(line: dict[str, Any]) -> None:
        channel.write(json.dumps(line, allow_nan=False) + "\n")
        channel.flush()

    # torch warns on import where NumPy is missing; this bench needs none.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        import torch

        torch.set_grad_enabled(False)
        device = open_device(torch, order["device"], order["threads"])
        costs = device.costs() if order["first"] else {}
        stack = {**torch_stack(torch, order["device"]), **device.stack()}
        say({"ready": {"target": dataclasses.asdict(device.target()), "stack": stack, "costs": costs}})
    except BenchError as error:
        say({"fatal": {"code": error.code, "message": error.sentence}})
        return 1

    cases = [parse.from_row(params, f"case {i}") for i, params in enumerate(order["cases"])]
    timed: list[int] = []
    for index, case in enumerate(cases):
        say({"begin": index})
        try:
            measured, sticky = device.measure(case, order["seconds"]), False
        except Exception as error:  # whatever one case raises is that case's outcome
            measured, sticky = failure(torch, case, error)
        say({"result": index, "measurement": dataclasses.asdict(measured)})
        if measured.samples:
            timed.append(index)
        if sticky:
            return 1  # the parent goes on in a fresh process
        if order["device"] == "cuda":
            torch.cuda.empty_cache()
    # Names come last: the profiler slows the launches of a process that has used it.
    for index in timed:
        try:
            say({"kernel": index, "name": device.kernel(cases[index])})
        except Exception as error:  # a nameless kernel is no failed measurement
            print(f"{cases[index]}: kernel name not found: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
