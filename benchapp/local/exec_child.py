"""Become another program that cannot outlive its parent. A script of the standard library alone.

    python -I -S exec_child.py --parent PID [--signal N] [--user UID:GID | --namespace UID:GID] -- program …

The kernel forgets PR_SET_PDEATHSIG when the user changes, so a child must ask for it after the change and
before `exec`. `--user` changes the user; `--namespace` enters a user namespace in which the caller appears
under that user, for folders that no other user may enter.
"""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(death_signal: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Ask the kernel for `death_signal` when the parent thread ends; exit if `parent` has gone already."""
    if _libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if parent is not None and os.getppid() != parent:
        sys.exit(f"the parent process {parent} has gone")


def become_user(user: int, group: int) -> None:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)


def enter_namespace(user: int, group: int) -> None:
    """A user namespace that shows the caller as user:group, and still owns the caller's files.

    Raises OSError where the kernel or a container forbids user namespaces.
    """
    outer_user, outer_group = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outer_user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {outer_group} 1")


def _pair(text: str) -> tuple[int, int]:
    user, group = text.split(":")
    return int(user), int(group)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--signal", type=int, default=int(signal.SIGKILL))
    identity = parser.add_mutually_exclusive_group()
    identity.add_argument("--user", type=_pair)
    identity.add_argument("--namespace", type=_pair)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    if options.user:
        become_user(*options.user)
    elif options.namespace:
        try:
            enter_namespace(*options.namespace)
        except OSError as error:
            sys.exit(
                f"root needs a user namespace here and gets none ({error.strerror}): let other users pass all"
                " parents of the data folder and of the programs (chmod o+x), or run as an ordinary user"
            )
    die_with_parent(options.signal, options.parent)
    os.execv(options.program[0], options.program)  # noqa: S606


if __name__ == "__main__":
    main()
