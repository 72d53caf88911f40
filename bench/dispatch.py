"""What it costs that others do the work: from an inbox row to ingested, from a request to its document."""

from __future__ import annotations

import functools
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from bench.claims import bodies
from bench.dispatch_run import overhead
from bench.generate import NAME
from bench.result import Result, timed
from bench.stand import Stand
from benchapp.ingest.actions import ingest
from benchapp.local.child import end, spawn
from benchapp.runs import broker
from benchapp.runs.actions import receive
from benchapp.runs.models import Document

WORKER = ("-m", "celery", "-A", "benchapp.celery", "worker", "-Q", "control", "-c", "1", "--loglevel=ERROR")
START_S = 60.0
LOOK_EVERY_S = 0.002


def run(stand: Stand) -> Iterator[Result]:
    count = stand.size(40, 10)
    rows = [
        receive(b"\\n" + body, origin=Document.Origin.FILE, name=NAME)[0].pk for body in bodies(2 * count + 1)
    ]
    here, there = rows[:count], rows[count:]
    in_place = _median(ingest, here)
    worker = spawn([sys.executable, *WORKER], log=stand.home / "log" / "worker.log", environment=os.environ)
    try:
        _through_the_worker(there[0])  # waits for its start
        away = _median(_through_the_worker, there[1:])
    finally:
        end([worker], ((signal.SIGTERM, 5.0),))
    yield Result(
        "a document of one measurement through broker and worker", away, "ingested in place", in_place
    )
    yield from overhead(stand)


def _median(work: Callable[[int], object], rows: list[int]) -> float:
    return statistics.median(timed(functools.partial(work, row)) for row in rows)


def _through_the_worker(row: int) -> None:
    broker.ask_ingest(row)
    deadline = time.monotonic() + START_S
    while Document.objects.filter(pk=row, state=Document.State.RECEIVED).exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no worker ingested document {row} within {START_S:.0f} s")
        time.sleep(LOOK_EVERY_S)
