"""From a request to its document in the inbox, through a worker and a child that does nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from bench.generate import gemms
from bench.result import Result, duration, timed
from bench.stand import SEED, Stand
from benchapp.catalog.digests import environment_name
from benchapp.local.child import end, spawn
from benchapp.runs import queues
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Document, Job, Run

REPOSITORY = Path(__file__).resolve().parents[1]
VERSIONS = {"torch": "2.13.0"}
GPU, GPU_QUEUE = "GPU-0b5e55ed-0000-0000-0000-000000000000", "gpu.uuid.bench"
OPTIONS = ("-c", "1", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat")
CHILD = """#!{python}
import os, sys, time
started = time.monotonic()
with open({body!r}) as body, open(sys.argv[sys.argv.index("--out") + 1], "w") as out:
    told = body.read().replace("NAME", os.path.basename(os.getcwd()))
    out.write(told.replace("0.125", str(started)))
"""
LIMIT_S = 60.0


def overhead(stand: Stand) -> Iterator[Result]:
    """For a run on the CPUs and one on a GPU; the baseline is timed before, between and after."""
    count = stand.size(30, 5)
    _make_child(stand.home)
    with _worker("bench.dispatch_noop", "bench.noop", {}):
        from bench.dispatch_noop import noop

        def bare() -> None:
            noop.delay().get(timeout=LIMIT_S)
            subprocess.run([sys.executable, "-c", "pass"], check=True)

        bare()  # waits for its start
        bares = [timed(bare) for _ in range(count)]
        for device, queue, own in (
            ("cpu", queues.CPU, {}),
            ("cuda", GPU_QUEUE, {"TILEWATCH_WORKER": "gpu", "TILEWATCH_GPU": GPU} | _simulated(stand.home)),
        ):
            with _worker("workers.celery", queue, own | {"TILEWATCH_LEASES": str(stand.home / "leases")}):
                _request_to_stored(device, queue, -1)
                times = [_request_to_stored(device, queue, number) for number in range(count)]
            bares += [timed(bare) for _ in range(count)]
            where = "on a GPU" if device == "cuda" else "on the CPUs"
            yield Result(
                f"a run {where} whose child only starts, from request to stored document",
                statistics.median(stored for _, stored in times),
                "a bare Celery task and back, and `python -c pass`",
                statistics.median(bares),
                f"child started after {duration(statistics.median(started for started, _ in times))}",
            )


def _simulated(home: Path) -> dict[str, str]:
    """One GPU without anybody on it."""
    told = home / "nvml.json"
    told.write_text(json.dumps({"gpus": [{"uuid": GPU}]}))
    return {"PYTHONPATH": str(REPOSITORY / "tests" / "simulated"), "SIMULATED_NVML": str(told)}


def _make_child(home: Path) -> None:
    body = home / "body.json"
    document = dataclasses.replace(next(gemms(1, SEED)), command=("NAME",), costs={"started": 0.125})
    body.write_text(document.dumps())
    python = home / "envs" / environment_name(VERSIONS) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(CHILD.format(python=sys.executable, body=str(body)))
    python.chmod(0o755)


@contextlib.contextmanager
def _worker(application: str, queue: str, own: dict[str, str]) -> Iterator[None]:
    program = [sys.executable, "-m", "celery", "-A", application, "worker", "-Q", queue, *OPTIONS]
    home = Path(os.environ["TILEWATCH_HOME"])
    worker = spawn(program, log=home / "log" / "worker.log", environment=os.environ | own, folder=REPOSITORY)
    try:
        yield
    finally:
        end([worker], ((signal.SIGTERM, 5.0),))


def _request_to_stored(device: str, queue: str, number: int) -> tuple[float, float]:
    """Seconds from the request until the child had started, and until its document was in the inbox."""
    params = {"device": device, "cases": [{"number": number}]}
    request = Request(Run.Kind.GEMM, "A run that only starts", queue, VERSIONS, params)
    with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=2 * LIMIT_S) as broker:
        broker.delete(queues.CONTROL)  # nobody serves it here
        began = time.monotonic()
        run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
        while not (delivered := Document.objects.filter(run=run).first()):
            # what asks for its ingest is sent after it was stored; looking all the time would take a core
            if broker.blpop([queues.CONTROL], timeout=LIMIT_S) is None:
                raise RuntimeError(f"run {run.pk} delivered nothing within {LIMIT_S:.0f} s")
    stored = time.monotonic() - began
    started = json.loads(bytes(delivered.body))["costs"]["started"]
    return started - began, stored
