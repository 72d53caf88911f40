"""One measuring child: its process, its lines with time limits, and what is known of its end."""

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
from pathlib import Path
from typing import Any

from workers.bench.cases.base import Case
from workers.bench.cases.parse import as_row
from workers.bench.gemm.how import How

LOG_TAIL = 4000
#: how often a silent child is looked at: what it forked may hold its pipe open after its end
LOOK_S = 1.0
ROOT = Path(__file__).resolve().parents[3]
MODULE = "workers.bench.gemm.child"


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What one child is to do: `cases` but for the backends already `done` of them, by index of the case.

    `calibrate` asks for a calibration of the timers first, `names` for the names of kernels at the end.
    `module` is the child's program.
    """

    cases: list[Case]
    how: How
    done: tuple[tuple[int, str], ...] = ()
    calibrate: bool = False
    names: bool = True
    module: str = MODULE

    def dumps(self) -> str:
        told = {"done": self.done, "calibrate": self.calibrate, "names": self.names}
        return json.dumps(
            {**told, "cases": [as_row(case) for case in self.cases], "how": dataclasses.asdict(self.how)}
        )


class Child:
    """One child process, its lines with time limits, and what is known of its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._buffer = b""
        self._garbled = b""
        self.timed_out = False

    def __enter__(self) -> Child:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        how = self._order.how
        if how.threads is not None:
            environment["OMP_NUM_THREADS"] = str(how.threads)
        if how.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._order.module, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            close_fds=False,  # an inherited device lease goes on to the one that measures
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(self._order.dumps().encode())
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
        """The next line, or None once the child has ended, or was ended: it stayed silent for `limit_s`, or
        something in it wrote into its lines."""
        assert self._process.stdout is not None
        ends = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            gone = self._process.poll() is not None
            if not self._selector.select(min(LOOK_S, max(0.0, ends - time.monotonic()))):
                if not gone and time.monotonic() < ends:
                    continue
                self.timed_out = not gone
                self._end()
                return None
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                self._end(grace_s=10)
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            self._garbled = line
            self._end()
            return None
        return told

    def log(self) -> str:
        """The last LOG_TAIL characters of its stderr."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - LOG_TAIL))
        return self._errors.read().decode("utf-8", errors="replace")

    def epitaph(self) -> str:
        """How it ended, as part of a sentence."""
        if self._garbled:
            return f"a library wrote among the lines of its process: {self._garbled[:100]!r}"
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
