"""Runs as the product makes them: asked for, claimed, delivered, failed."""

from __future__ import annotations

from benchapp.catalog.models import Recipe
from benchapp.ingest.actions import ingest
from benchapp.runs import work
from benchapp.runs.models import Document, Job, Run
from benchapp.runs.requests import request_cpu_gemm, request_survey
from tests.ingest.documents import body, gemm, measurement

LOG = "pip install \x1b[32mtorch\x1b[0m\r\n 10%\r 50%\rdone\n<script>alert('log')</script>\n"


def queued_survey(version: str = "0.6.3") -> Run:
    run, _ = request_survey(version, "sm120", user=None, source=Job.Source.COMMAND)
    return run


def running_survey(version: str = "0.6.3", log: str = LOG) -> Run:
    run = queued_survey(version)
    work.claim([run.queue], "build@here")
    work.beat(run.pk, 1, work.Progress(14, 40, "compiling group 2"), log)
    run.refresh_from_db()
    return run


def failed_survey(version: str = "9.9.9") -> Run:
    run = running_survey(version)
    work.fail(run.pk, 1, "no_such_version", f"There is no FlashInfer {version}.")
    run.refresh_from_db()
    return run


def gemm_done(*measurements) -> tuple[Run, Document]:
    run, _ = request_cpu_gemm("cpu-smoke", user=None, source=Job.Source.FIRST_START)
    work.claim([run.queue], "cpu@here")
    document = ingest(work.deliver(run.pk, 1, body(gemm(*(measurements or (measurement(),))))))
    assert document.state == Document.State.ACCEPTED, document.fault
    run.refresh_from_db()
    return run, document


def many(number: int) -> None:
    """So many queued runs of as many jobs, without anything behind them."""
    recipe, _ = Recipe.objects.get_or_create(digest="many", defaults={"versions": {"torch": "1"}})
    jobs = Job.objects.bulk_create(Job(title=f"job {n}", source="command") for n in range(number))
    Run.objects.bulk_create(Run(job=job, kind="gemm", queue="many", recipe=recipe) for job in jobs)
