"""A worker's dealings with Postgres: claim a run, deliver its document; against one UPDATE … RETURNING."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from django.db import connection

from bench.generate import NAME, gemms
from bench.result import Result, timed
from bench.stand import SEED, Stand
from benchapp.celery import app
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from benchapp.runs.work import claim, deliver

QUEUE = NAME
CLAIM = """
    UPDATE bench_claim SET state = 'running' WHERE id = (
        SELECT id FROM bench_claim WHERE state = 'queued' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1
    ) RETURNING id
"""


def ask(count: int) -> None:
    """Queue that many runs, none equal to another, which no worker takes up."""
    for number in range(count):
        request = Request(
            Run.Kind.GEMM, f"Generated request {number}", QUEUE, {"torch": NAME}, {"number": number}
        )
        request_run(request, user=None, source=Job.Source.COMMAND)


def bodies(count: int) -> Iterator[bytes]:
    """Documents of one measurement each, none equal to another."""
    document = next(gemms(1, SEED))
    for number in range(count):
        yield dataclasses.replace(document, costs={"number": number}).dumps().encode()


def run(stand: Stand) -> Iterator[Result]:
    count = stand.size(200, 40)
    ask(count)
    documents = list(bodies(count))
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_claim (id bigint PRIMARY KEY, state text NOT NULL)")
        cursor.execute("INSERT INTO bench_claim SELECT n, 'queued' FROM generate_series(1, %s) AS n", [count])
        bare = timed(lambda: [cursor.execute(CLAIM) for _ in range(count)])
    cycles = timed(lambda: _cycles(documents))
    app.control.purge()  # nobody is to ingest them
    yield Result("claim a run and deliver its document", cycles / count, "UPDATE … RETURNING", bare / count)


def _cycles(documents: list[bytes]) -> None:
    for body in documents:
        claimed = claim([QUEUE], NAME)
        if claimed is None:
            raise RuntimeError(f"queue {QUEUE} holds no run although one was asked for")
        deliver(claimed.run_id, claimed.attempt, body)
