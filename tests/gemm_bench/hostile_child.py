"""A measuring child whose operators misbehave for some M, as a library's broken kernel does."""

import contextlib
import os
import signal
import sys
import time

from workers.bench.gemm import child
from workers.bench.operators import registry
from workers.bench.operators.base import Ready, UnsupportedError
from workers.bench.operators.no_jit import BuildNeededError

real = registry.operators


def hangs():
    time.sleep(600)


def dies():
    os.kill(os.getpid(), signal.SIGSEGV)


def runs_out():
    raise MemoryError


def refuses():
    raise UnsupportedError("No such kernel on this device.")


def wants_a_compiler():
    raise BuildNeededError("Module gemm_sm90 was not built ahead.")


def fails():
    raise RuntimeError("launch configuration is invalid")


def forks():
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def writes_anywhere():
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"{no line\n")


FAULTS = {
    3: hangs,
    5: dies,
    7: runs_out,
    9: refuses,
    11: wants_a_compiler,
    13: fails,
    19: forks,
    21: writes_anywhere,
}


class Hostile:
    backend = "torch.mm"

    def __init__(self, fault):
        self._fault = fault

    def ready(self, torch, case):
        return Ready(lambda: self._fault(), unreached, "none")


def unreached(outputs):
    raise AssertionError("a faulty call has nothing to check")


class Zeros:
    """Writes nothing: the poison stays, or what a kernel that does nothing leaves."""

    backend = "torch.mm"

    def __init__(self, operator):
        self._operator = operator

    def ready(self, torch, case):
        made = self._operator.ready(torch, case)
        out = made.call()
        return Ready(lambda: out, made.check, made.inputs)


def operators(torch, case):
    if case.m == 15:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case.m == 17:
        return [Zeros(each) for each in real(torch, case)]
    return [Hostile(FAULTS[case.m])] if case.m in FAULTS else real(torch, case)


registry.operators = operators
if __name__ == "__main__":
    sys.exit(child.main())
