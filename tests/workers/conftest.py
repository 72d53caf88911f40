"""Real Celery workers on real servers. Only the interpreter of the recipe's environment is the test's own:
a child that does what the case list tells it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchapp.runs import work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from benchapp.runs.work import Claim
from tests.ingest.documents import body, gemm, measurement
from workers import environments
from workers.environments import location, python_of
from workers.identity import Identity

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
    held = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path(case["grandchild"]).write_text(str(held.pid))
if case.get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "partial" in case:
    def stop(signum, frame):
        pathlib.Path(args["--out"]).write_text(case["partial"])
        sys.exit(1)
    signal.signal(signal.SIGTERM, stop)
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


def furnish(home: Path) -> Path:
    """A data folder with the environment of a recipe, whose Python does what a case says."""
    python = python_of(location(home / "envs", VERSIONS))
    python.parent.mkdir(parents=True)
    python.write_text(CHILD.format(python=sys.executable))
    python.chmod(0o755)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnish(tmp_path)


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(home: Path, child_environment: dict[str, str], transactional_db: None) -> Iterator[Start]:
    """Start a program of the product in the test's home; all are gone after the test."""
    started = []

    def begin(
        *program: str, log: str, at: Path = home, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (at / log).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=REPOSITORY,
                env={
                    **child_environment,
                    "TILEWATCH_HOME": str(at),
                    "TILEWATCH_LEASES": str(home / "leases"),
                    **(environment or {}),
                },
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


class Gate:
    """A way to Postgres that can be shut: no new connection, and the open ones are cut."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        self._server = (there.hostname, there.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = True
        self._ends: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        self.url = there._replace(netloc=f"{there.netloc.rpartition('@')[0]}@127.0.0.1:{port}").geturl()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ends = [self._listener.accept()[0]]
                if self._open:
                    ends.append(socket.create_connection(self._server))
                    for source, sink in (ends, reversed(ends)):
                        threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()
                    self._ends += ends
                else:
                    ends[0].close()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._open = False
        while self._ends:
            with contextlib.suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        self._open = True

    def end(self) -> None:
        self.close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def gate(child_environment: dict[str, str]) -> Iterator[Gate]:
    gate = Gate(child_environment["DATABASE_URL"])
    yield gate
    gate.end()


OPTIONS = ("-c", "1", "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")


def worker_of(queues: str) -> tuple[str, ...]:
    return ("celery", "-A", "workers.celery", "worker", "-Q", queues, *OPTIONS)


@pytest.fixture
def worker(start: Start) -> Callable[[], subprocess.Popen[bytes]]:
    return lambda: start(*worker_of("cpu"), log="worker.log")


@pytest.fixture
def control(start: Start) -> Callable[[], subprocess.Popen[bytes]]:
    return lambda: start(
        "celery", "-A", "benchapp.celery", "worker", "-Q", "control", *OPTIONS, log="control.log"
    )


@pytest.fixture
def here(home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Identity:
    """This very process as a worker of the home."""
    settings.HOME = home
    monkeypatch.setenv("TILEWATCH_LEASES", str(home / "leases"))
    return Identity("cpu", ("cpu",), "", "boxa", "k3jd82ks")


def claim(me: Identity) -> Claim:
    run = work.claim(me.queues, me.name, gpu=me.gpu, ready=environments.ready())
    assert run is not None
    return run


def ask(**case: object) -> Run:
    """A run whose child does what `case` says."""
    return ask_at(None, **case)


def ask_at(priority: int | None, **case: object) -> Run:
    """The same with a priority of its own."""
    return request("cpu", {"device": "cpu", "cases": [case]}, priority=priority)


def request(queue: str, params: dict[str, Any], **more: Any) -> Run:
    asked = Request(Run.Kind.GEMM, "a test", queue, VERSIONS, params, needs_environment=True, **more)
    return request_run(asked, user=None, source=Job.Source.COMMAND)[0]


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

    until(there, seconds, f"run {run.pk} {state}")
    return run


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
