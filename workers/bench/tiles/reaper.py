"""Runs one command and takes its whole process group down when the bench dies.

A death signal reaches direct children only, but nvcc and pip start children of their own. So this
script stands between: it leads a process group, asks the kernel for SIGTERM when the bench ends for
whatever reason, and answers it with SIGKILL to the group. Called as: reaper.py BENCH_PID COMMAND…
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    bench, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda signum, frame: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != bench:
        return 128 + signal.SIGTERM
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        child = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # die the same way, so that the bench sees the signal
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
