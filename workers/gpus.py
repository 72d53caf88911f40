"""This machine's GPUs, asked of NVML in a process that does nothing else.

    python -m workers.gpus list          one JSON object: what `ask` returns
    python -m workers.gpus watch         one object, with Xid errors, a line of standard input
    python -m workers.gpus neighbours    for each UUID on standard input who computes there, or why not known

NVML must not be initialised in a process that forks, and may hang with a broken driver. So it is spoken to
here alone, and whoever asks does not wait for ever.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
#: NVML takes seconds where the driver keeps no state between clients.
PATIENCE_S = 60.0
#: Where something is missing, NVML is begun anew so often.
RETRY_S = 60.0


def nothing(why: str) -> dict[str, Any]:
    """The answer where NVML gives none."""
    return {"nvml": why, "driver": "", "gpus": [], "lost": [], "xids": []}


def ask(patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """All GPUs of this machine.

    {"nvml": "" or why it does not answer, "driver", "gpus": [{uuid, index, parent, model, arch, memory_bytes,
    cores, configuration, readings, processes}], "lost": [{index, uuid, why}], "xids": []}. A MIG device is
    an entry of its own and names its `parent`. Raises nothing.
    """
    try:
        listed = subprocess.run(
            _command("list"),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=patience_s,
            check=True,
        )
        return dict(json.loads(listed.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return nothing(_why(error, patience_s))


class _Child:
    """A process that answers each line with one of JSON.

    It ends when its standard input is closed, so however its owner ends.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._process: subprocess.Popen[str] | None = None
        self.started = 0.0

    def ask(self, line: str, patience_s: float) -> Any:
        """Its answer; started where it does not run, ended where it is silent. Raises OSError, ValueError."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], patience_s)[0]:
                raise TimeoutError(f"no answer within {patience_s:.0f} s")
            if not (answer := self._process.stdout.readline()):
                raise OSError("it ended without an answer")
            return json.loads(answer)
        except (OSError, ValueError):
            self.close()
            raise

    def start(self) -> None:
        self.close()
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            _command(self._what), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Watch:
    """Looks at the GPUs again and again, in one child that keeps listening for Xid errors."""

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self._child = _Child("watch")
        self._retry_s = retry_s
        self._most = 0

    def look(self, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """As `ask`, with Xid errors since the last look. Raises nothing."""
        try:
            answer = dict(self._child.ask("", patience_s))
        except (OSError, ValueError) as error:
            return nothing(_why(error, patience_s))
        self._most = max(self._most, len(answer["gpus"]))
        in_trouble = answer["nvml"] or answer["lost"] or len(answer["gpus"]) < self._most
        if in_trouble and time.monotonic() - self._child.started >= self._retry_s:
            # an NVML that has lost a GPU never finds it again; a new one may
            self._child.start()
        return answer

    def close(self) -> None:
        self._child.close()


class Neighbours:
    """Who computes on a GPU, asked again and again of one child: it starts once."""

    def __init__(self) -> None:
        self._child = _Child("neighbours")

    def of(self, uuid: str, patience_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        """[{pid, name, memory_bytes}]. Raises OSError, ValueError with the reason where NVML does not say."""
        answer = self._child.ask(uuid, patience_s)
        if not isinstance(answer, list):
            self._child.close()  # a new NVML may know
            raise ValueError(answer)
        return answer

    def close(self) -> None:
        self._child.close()


def _command(what: str) -> list[str]:
    return [sys.executable, "-m", "workers.gpus", what]


def _why(error: Exception, patience_s: float) -> str:
    if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
        return f"NVML did not answer within {patience_s:.0f} s"
    return f"the process that asks NVML failed: {error}"


def _list() -> dict[str, Any]:
    from workers import nvml

    try:
        return nothing("") | nvml.Reader().look()
    except nvml.UnavailableError as error:
        return nothing(str(error))


def _neighbours() -> None:
    from workers import nvml

    reader: nvml.Reader | None = None
    for line in sys.stdin:
        answer: list[dict[str, Any]] | str
        try:
            reader = reader or nvml.Reader()
            answer = reader.processes(line.strip())
        except nvml.UnavailableError as error:
            answer = str(error)
        print(json.dumps(answer), flush=True)


def _watch() -> None:
    from workers import nvml

    reader: nvml.Reader | None = None
    answer = nothing("")
    try:
        reader = nvml.Reader()
        reader.look()
        reader.watch_for_xids()
    except nvml.UnavailableError as error:
        answer = nothing(str(error))
    for _ in sys.stdin:
        if reader is not None:
            try:
                answer = nothing("") | reader.look() | {"xids": reader.xids()}
            except nvml.UnavailableError as error:
                answer = nothing(str(error)) | {"xids": reader.xids()}
        print(json.dumps(answer), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="workers.gpus", description="This machine's GPUs, as NVML sees them."
    )
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("list", help="all GPUs, as one JSON object")
    what.add_parser("watch", help="the same object for each line of standard input, with Xid errors")
    what.add_parser("neighbours", help="who computes on each GPU named on standard input")
    options = parser.parse_args()
    if options.what in ("watch", "neighbours"):
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
            _watch() if options.what == "watch" else _neighbours()
    else:
        print(json.dumps(_list()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
