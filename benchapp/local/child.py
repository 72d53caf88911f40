"""Start a program as a direct child that dies with this process, as the user that it may run as."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

EXEC_CHILD = Path(__file__).with_name("exec_child.py")


class LocalError(Exception):
    """Something on this machine is in the way; the text is one sentence for the person at the terminal."""


@dataclass(frozen=True)
class Identity:
    """Who a server runs as: this user (`how` is empty), or another by change of user or by user namespace."""

    how: str = ""
    user: int = os.geteuid()
    group: int = os.getegid()

    @property
    def flags(self) -> list[str]:
        return [f"--{self.how}", f"{self.user}:{self.group}"] if self.how else []

    def own(self, path: Path) -> None:
        """Give `path` and all below it to the user that the server's files belong to outside a namespace."""
        if os.geteuid() != 0:
            return
        user, group = (self.user, self.group) if self.how == "user" else (0, 0)
        if path.stat().st_uid == user:
            return
        for below in (*path.rglob("*"), path):
            os.chown(below, user, group, follow_symlinks=False)


def server_identity(*paths: Path) -> Identity:
    """Who may run a server that refuses root and must reach `paths`.

    An ordinary user stays as it is. Root becomes `nobody`; where a parent of `paths` keeps others out, or a
    container has no such user, root shows itself as `nobody` in a user namespace instead.
    """
    if os.geteuid() != 0:
        return Identity()
    try:
        nobody = pwd.getpwnam("nobody")
        user, group = nobody.pw_uid, nobody.pw_gid
    except KeyError:
        user = group = 65534
    parents = {parent for path in paths for parent in path.resolve().parents}
    everybody_passes = all(parent.stat().st_mode & 0o001 for parent in parents if parent.exists())
    return Identity("user" if everybody_passes and _is_mapped(user) else "namespace", user, group)


def _is_mapped(user: int) -> bool:
    """Does `user` exist in this process's user namespace?"""
    ranges = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(int(first) <= user < int(first) + int(count) for first, _, count in ranges)


def spawn(
    program: Sequence[str | Path],
    *,
    log: Path | int,
    environment: Mapping[str, str] | None = None,
    identity: Identity | None = None,
    death_signal: int = signal.SIGKILL,
    stdin: str | None = None,
    folder: Path | None = None,
    keep_open: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start `program` in a session of its own, its output appended to `log`. Main thread only.

    A session of its own keeps a terminal's Ctrl-C from reaching all children at once: they stop in order.
    `stdin` is written and closed at once, for configuration that must not be seen in a process list.
    """
    output: IO[bytes] | int = log if isinstance(log, int) else log.open("ab")
    wrapper = [sys.executable, "-I", "-S", str(EXEC_CHILD), "--parent", str(os.getpid())]
    wrapper += ["--signal", str(int(death_signal)), *(identity or Identity()).flags, "--"]
    executable = shutil.which(program[0]) or str(program[0])
    try:
        child = subprocess.Popen(
            [*wrapper, executable, *map(str, program[1:])],
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            cwd=folder,
            start_new_session=True,
            pass_fds=keep_open,
            text=True,
        )
    finally:
        if not isinstance(output, int):
            output.close()
    if child.stdin:
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(stdin or "")
    return child


def end(
    children: Sequence[subprocess.Popen[str]],
    steps: Sequence[tuple[int, float]],
    hurry: Callable[[], bool] = lambda: False,
) -> None:
    """Send each signal of `steps` to all children, wait its seconds; then kill what is left of their groups.

    `hurry` is asked meanwhile: once true, nothing is waited for.
    """
    for number, seconds in steps:
        deadline = time.monotonic() + seconds
        for child in children:
            if child.poll() is None:
                child.send_signal(number)
        while any(child.poll() is None for child in children) and time.monotonic() < deadline and not hurry():
            time.sleep(0.02)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
