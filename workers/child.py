"""One child process of a run: watched, logged, timed, and ended with all it started."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchapp.runs.actions import LOG_LIMIT
from benchapp.runs.work import Progress
from workers.failure import Failure

TICK_S = 1.0
#: from SIGTERM to SIGKILL at its time limit
GRACE_S = 3.0
#: The same for a bench, which may still write what it has measured
LAST_WORDS_S = 15.0
#: from SIGKILL until a child that the kernel cannot end (a driver that hangs) is left to itself
STUCK_S = 30.0
#: A child that prints more than this is ended.
LOG_LIMIT_BYTES = 64 * 1024 * 1024
CHUNK = 256 * 1024

KEEPER = Path(__file__).with_name("keeper.py")
MOST_STEPS = 2**31 - 1

#: What a child may know of our environment: no server address, no secret.
PASSED_ON = frozenset(
    {
        "PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
        "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
        "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    }
)  # fmt: skip
PASSED_ON_PREFIXES = ("PIP_", "OMP_", "MKL_", "NCCL_")


HINTS = {
    signal.SIGKILL: "; the kernel does that when memory runs out",
    signal.SIGXFSZ: "; a file reached the size that this user may write (ulimit -f)",
}


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    return kept | dict(extra)


@dataclasses.dataclass(slots=True)
class _Tail:
    """Reads what was appended to a file since the last look."""

    path: Path
    offset: int = 0

    def read(self) -> str:
        try:
            with self.path.open("rb") as source:
                source.seek(self.offset)
                chunk = source.read(CHUNK)
        except FileNotFoundError:
            return ""
        self.offset += len(chunk)
        return chunk.decode("utf-8", "replace")


def _text(value: object) -> str:
    """JSON can name half a character, which Postgres' text cannot hold."""
    return str(value).encode(errors="replace").decode()


class _ProgressFile:
    """The newest progress, and the error if there was one, of a bench's progress lines."""

    def __init__(self, path: Path) -> None:
        self._tail = _Tail(path)
        self._rest = ""
        self.progress: Progress | None = None
        self.error: Failure | None = None

    def look(self) -> None:
        *lines, self._rest = (self._rest + self._tail.read()).split("\n")
        self._rest = self._rest[-CHUNK:]
        for line in lines:
            try:
                said = json.loads(line)
                if "error" in said:
                    code, message = (_text(said["error"][name]) for name in ("code", "message"))
                    self.error = Failure(code[:40], message)
                else:
                    done, total = (min(max(int(said[name]), 0), MOST_STEPS) for name in ("done", "total"))
                    self.progress = Progress(done, total, _text(said["message"]))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue  # a child's own lines are never a reason to end it


def run(
    command: Sequence[str],
    *,
    folder: Path,
    timeout_s: float,
    tick: Callable[[Progress | None, str], None],
    extra_environment: Mapping[str, str],
    leases: Sequence[int] = (),
    progress: Path | None = None,
    niceness: int = 0,
    last_words_s: float = GRACE_S,
) -> None:
    """Run `command` in `folder` to its end. Main thread only, since the child dies with its parent thread.

    `tick(progress, log)` is called about once a second; what it raises ends the child and is passed on. At
    its time limit the child has `last_words_s` from SIGTERM on to write what it has. Raises Failure when the
    child fails, is killed, prints without end or outlives `timeout_s`.
    """
    log = folder / "log"
    with log.open("ab") as output:
        start = output.tell()
        keeper = [
            sys.executable,
            "-I",
            "-S",
            str(KEEPER),
            str(os.getpid()),
            str(niceness),
            str(LOG_LIMIT_BYTES),
        ]
        child = subprocess.Popen(
            [*keeper, *command],
            cwd=folder,
            env=environment(extra_environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(leases),
        )
    printed = _Tail(log, start)
    said = _ProgressFile(progress if progress is not None else folder / "progress")
    deadline = time.monotonic() + timeout_s
    try:
        while (left := deadline - time.monotonic()) > 0:
            said.look()
            tick(said.progress, printed.read())
            if _ended(child, min(TICK_S, left)):
                break
        else:
            child.terminate()
            _ended(child, last_words_s)
            raise Failure(
                "timeout", f"It was still running after its limit of {timeout_s:,.0f} s and was ended."
            )
        if log.stat().st_size - start > LOG_LIMIT_BYTES:
            raise Failure("log_limit", f"It printed more than {LOG_LIMIT_BYTES:,} bytes and was ended.")
        if child.returncode != 0:
            said.look()
            raise said.error or _died(child.returncode)
    except Failure:
        _end(child)
        _tell_rest(said, printed, tick)
        raise
    finally:
        _end(child)
    _tell_rest(said, printed, tick)


def _ended(child: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Whether the child ends within that time; told at once, where `Popen.wait` looks every 50 ms."""
    if child.poll() is not None:
        return True
    descriptor = os.pidfd_open(child.pid)
    try:
        select.select([descriptor], [], [], patience_s)
    finally:
        os.close(descriptor)
    return child.poll() is not None


def _tell_rest(said: _ProgressFile, printed: _Tail, tick: Callable[[Progress | None, str], None]) -> None:
    said.look()
    tick(said.progress, "")
    for _ in range(LOG_LIMIT // CHUNK):
        if chunk := printed.read():
            tick(None, chunk)


def _died(returncode: int) -> Failure:
    if returncode < 0:
        name = signal.Signals(-returncode).name
        hint = HINTS.get(signal.Signals(-returncode), "")
        return Failure("crashed", f"The child process was killed by {name}{hint}.")
    return Failure(
        "crashed", f"The child process ended with exit code {returncode}; the end of its log says more."
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started, at once: it may write nothing more, least of all a document of
    half its work. The keeper ends when nobody is left."""
    child.send_signal(signal.SIGHUP)
    try:
        child.wait(STUCK_S)
    except subprocess.TimeoutExpired:
        raise Failure(
            "stuck", "Its processes could not be ended; they keep its leases until the kernel lets them go."
        ) from None
