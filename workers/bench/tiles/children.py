"""Child processes of the bench: bounded in time, killed as a group, never outliving the bench."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_REAPER = str(Path(__file__).with_name("reaper.py"))
_POLL_SECONDS = 0.02
_KEEP_BYTES = 4 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `returncode` is -N when signal N killed it. Output is capped at 4 MiB each.

    `cpu_seconds` is what the command and all that it waited for took.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool
    cpu_seconds: float = 0.0


class Child:
    """A started command. Its output goes to files in `folder`, so that no pipe can fill up."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float,
        inherit: bool = False,
    ) -> None:
        self._stdout, self._stderr = folder / "stdout.txt", folder / "stderr.txt"
        self._deadline = time.monotonic() + timeout
        self._timed_out = False
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _REAPER, str(os.getpid()), *command],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                close_fds=not inherit,
            )

    def poll(self) -> Ended | None:
        """None while it runs; kills it when its time is over."""
        if time.monotonic() > self._deadline and not self._timed_out:
            self._timed_out = True
            self._signal_group()
        before = _cpu_seconds()
        returncode = self._process.poll()
        if returncode is None:
            return None
        # the kernel adds a child's time to ours when it is waited for, which poll has just done
        cpu_seconds = round(_cpu_seconds() - before, 3)
        return Ended(returncode, _read(self._stdout), _read(self._stderr), self._timed_out, cpu_seconds)

    def kill(self) -> None:
        if self._process.returncode is None:
            self._signal_group()
            self._process.wait()

    def _signal_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def run(
    command: Sequence[str],
    *,
    folder: Path,
    env: Mapping[str, str],
    cwd: Path | None = None,
    timeout: float = 600,
    inherit: bool = False,
) -> Ended:
    """Run to the end. An exception on the way, a signal's too, leaves no process behind.

    With `inherit` it gets the descriptors that this process inherited, a device's lease among them.
    """
    child = Child(command, folder=folder, cwd=cwd or folder, env=env, timeout=timeout, inherit=inherit)
    try:
        while (ended := child.poll()) is None:
            time.sleep(_POLL_SECONDS)
        return ended
    finally:
        child.kill()


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read(path: Path) -> str:
    with path.open("rb") as source:
        return source.read(_KEEP_BYTES).decode("utf-8", errors="replace")
