"""AIPerf as a child: started with an argument list, watched, and ended whole."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

RECORDS = Path("artifacts") / "profile_export.jsonl"
LOG = "aiperf.log"
LOG_TAIL = 8000
#: AIPerf prints a line now and then; more than this is no log.
LOG_LIMIT_BYTES = 64 * 1024 * 1024
LOOK_S = 0.2
SHORT = "/tmp"  # noqa: S108 - a folder of our own is made there
#: What it may know of our environment, beside the key that it needs.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE")


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """`why` is "" where it ended by itself."""

    code: int
    why: str
    log: str

    @property
    def said(self) -> str:
        """The first error in what is kept of its log; "" without one."""
        found = next((line for line in self.log.splitlines() if " ERROR " in line), "")
        return " ".join(found.partition(" ERROR ")[2].split())[:300]


def environment(folder: Path, short: Path, keys: Mapping[str, str]) -> dict[str, str]:
    """What it keeps goes with the folder, which `short` leads to. Of ours only what is named comes along."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **kept,
        **keys,
        "HOME": str(folder),
        "TMPDIR": str(short),
        "PYTHONUNBUFFERED": "1",
        "AIPERF_HTTP_IP_VERSION": "auto",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[Path]:
    """A short name for a folder: AIPerf's sockets lie below it, and a socket's path has 107 characters."""
    with tempfile.TemporaryDirectory(prefix="tw-", dir=SHORT) as place:
        link = Path(place) / "t"
        link.symlink_to(folder)
        yield link


def run(
    configuration: Path,
    folder: Path,
    limit_s: float,
    keys: Mapping[str, str],
    *,
    python: str = sys.executable,
) -> Ended:
    """Run the AIPerf of `python` to its end or to `limit_s`; none of its processes outlives the call."""
    log = folder / LOG
    with log.open("wb") as output, _short(folder) as short:
        child = subprocess.Popen(
            [python, "-m", "aiperf", "profile", "--config", str(configuration)],
            cwd=folder,
            env=environment(folder, short, keys),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        why = ""
        ends = time.monotonic() + limit_s
        try:
            while child.poll() is None:
                if time.monotonic() > ends:
                    why = f"AIPerf was still at it after {limit_s:,.0f} s and was ended"
                    break
                if log.stat().st_size > LOG_LIMIT_BYTES:
                    why = "AIPerf printed without end and was ended"
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(LOOK_S)
        finally:
            # its services are processes of their own, in its group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - LOG_TAIL))
        return Ended(child.returncode, why, source.read().decode("utf-8", "replace"))
