"""A real Celery worker on real servers. Only the interpreter of the recipe's environment is the test's own:
a child that does what the case list tells it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from tests.ingest.documents import body, gemm, measurement
from workers.environments import location, python_of

REPOSITORY = Path(__file__).resolve().parents[2]
VERSIONS = {"torch": "2.13.0"}

CHILD = """#!{python}
import json, os, pathlib, signal, subprocess, sys, time
args = dict(zip(sys.argv[4::2], sys.argv[5::2]))
case, = json.loads(pathlib.Path(args["--cases"]).read_text())
progress = pathlib.Path(args["--progress"])
progress.write_text(json.dumps({{"done": 1, "total": 2, "message": "working"}}) + "\\n")
print("started", os.getpid(), flush=True)
print(sorted(os.environ), flush=True)
if case.get("grandchild"):
    held = subprocess.Popen(["sleep", "600"])
    pathlib.Path(case["grandchild"]).write_text(str(held.pid))
if case.get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(case.get("seconds", 0))
if "error" in case:
    progress.open("a").write(json.dumps({{"error": {{"code": "no_gpp", "message": case["error"]}}}}) + "\\n")
    sys.exit(1)
if "signal" in case:
    os.kill(os.getpid(), case["signal"])
while case.get("chatter"):
    print("x" * 65536)
if "document" in case:
    pathlib.Path(args["--out"]).write_text(case["document"])
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    python = python_of(location(tmp_path / "envs", VERSIONS))
    python.parent.mkdir(parents=True)
    python.write_text(CHILD.format(python=sys.executable))
    python.chmod(0o755)
    return tmp_path


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(home: Path, child_environment: dict[str, str], transactional_db: None) -> Iterator[Start]:
    """Start a program of the product in the test's home; all are gone after the test."""
    started = []

    def begin(*program: str, log: str) -> subprocess.Popen[bytes]:
        with (home / log).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=REPOSITORY,
                env=child_environment
                | {"TILEWATCH_HOME": str(home), "TILEWATCH_LEASES": str(home / "leases")},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def worker(start: Start) -> Callable[[], subprocess.Popen[bytes]]:
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")
    return lambda: start(
        "celery", "-A", "workers.celery", "worker", "-Q", "cpu", "-c", "1", *options, log="worker.log"
    )


@pytest.fixture
def control(start: Start) -> Callable[[], subprocess.Popen[bytes]]:
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")
    return lambda: start(
        "celery", "-A", "benchapp.celery", "worker", "-Q", "control", "-c", "1", *options, log="control.log"
    )


def ask(**case: object) -> Run:
    """A run whose child does what `case` says."""
    return ask_at(None, **case)


def ask_at(priority: int | None, **case: object) -> Run:
    """The same with a priority of its own."""
    params = {"device": "cpu", "cases": [case]}
    request = Request(
        Run.Kind.GEMM, "a test", "cpu", VERSIONS, params, priority=priority, needs_environment=True
    )
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def good_document(number: int = 0) -> str:
    return body(gemm(measurement(1 + number))).decode()


def until(true: Callable[[], bool], seconds: float = 60, what: str = "it") -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.1)


def becomes(run: Run, state: str, seconds: float = 60) -> Run:
    def there() -> bool:
        run.refresh_from_db()
        return run.state == state

    until(there, seconds, f"run {run.pk} {state} (is {run.state}: {run.failure})")
    return run


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
