"""Stands between a worker and a run's child, and ends with it whatever it started. Standard library alone.

    python -I -S keeper.py PARENT_PID NICENESS OUTPUT_LIMIT COMMAND …

What the child started comes to this process when the child ends, however it was started: no session, double
fork or handler escapes. SIGTERM is passed on to the child. SIGHUP, which the kernel sends when the worker
ends, ends all at once; so does standard output (a file) beyond OUTPUT_LIMIT bytes more than it had. It ends
as the child did. It inherits the leases, and so holds them until the last process is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
WATCHED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP}
POLL_S = 0.1
KILL_EVERY_S = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    parent, niceness, limit, command = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
    if os.getppid() != parent:
        return 128 + signal.SIGHUP
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(niceness)
    limit += os.fstat(1).st_size
    child = _start(command)
    status = _watch(child, limit)
    _end_all()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # end the same way, so that the worker sees the signal
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _start(command: list[str]) -> int:
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == keeper:
            os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def _watch(child: int, limit: int) -> int:
    """The child's wait status, once it has ended or been ended."""
    while True:
        got = signal.sigtimedwait(WATCHED, POLL_S)
        if got is not None and got.si_signo == signal.SIGTERM:
            os.kill(child, signal.SIGTERM)
        elif (got is not None and got.si_signo == signal.SIGHUP) or os.fstat(1).st_size > limit:
            os.kill(child, signal.SIGKILL)
        # without a signal too: several of one kind are told once
        for pid, status in _reap():
            if pid == child:
                return status


def _reap() -> Iterator[tuple[int, int]]:
    """Each child that has ended, own or inherited."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            yield ended


def _end_all() -> None:
    """Until nobody is left: whom a killed process started comes to us, and is seen the next time."""
    while not _childless():
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for _ in _reap():
            pass
        time.sleep(KILL_EVERY_S)


def _childless() -> bool:
    """Then nobody is below this process either."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _descendants() -> list[int]:
    """Processes below this one, the ended too."""
    from pathlib import Path  # takes a third of this program's start, and is seldom needed

    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # the second field is a name in brackets that may hold anything
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, ahead = [], [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


if __name__ == "__main__":
    sys.exit(main())
