"""What an installation does by itself when it is started for the first time."""

from __future__ import annotations

import logging
from pathlib import Path

from django.db import transaction

from benchapp.catalog.locks import lock
from benchapp.ingest.actions import ingest_file
from benchapp.runs.models import Document, Job, Run, State
from benchapp.runs.requests import request_cpu_gemm, request_cpu_models, request_survey
from workers.bench.suites.models import MODEL_SUITES

logger = logging.getLogger(__name__)

#: Results found on other machines, shown as recorded.
RECORDED = Path(__file__).resolve().parents[1] / "recorded"
SURVEYED_FLASHINFER = "0.6.3"
SURVEYED_ARCH = "sm120"
SUITE = "cpu-smoke"
#: Of its made-up models the first, so that the first tok/s of a machine without a GPU is there in seconds.
MODEL_SUITE = "tiny"


def take_recorded() -> None:
    """Take in the recorded results. What an earlier start took in stays as it is."""
    for path in sorted(RECORDED.iterdir()):
        document, new = ingest_file(path, origin=Document.Origin.RECORDED)
        if new and document.state == Document.State.REJECTED:
            logger.error("recorded result %s was refused: %s", path.name, document.fault)


@transaction.atomic
def ask() -> list[Run]:
    """Ask for the first survey, benchmark and decode, one after the other.

    Idempotent: what an earlier start asked for is returned as it is.
    """
    lock("first_jobs")
    runs = list(Run.objects.filter(job__source=Job.Source.FIRST_START).order_by("id"))
    if runs:
        return runs
    source = Job.Source.FIRST_START
    survey, _ = request_survey(SURVEYED_FLASHINFER, SURVEYED_ARCH, user=None, source=source)
    benchmark, _ = request_cpu_gemm(SUITE, user=None, source=source, waits_for=survey)
    decode, _ = request_cpu_models(
        MODEL_SUITES[MODEL_SUITE][:1], suite=MODEL_SUITE, user=None, source=source, waits_for=benchmark
    )
    return [survey, benchmark, decode]


def result_line(run: Run) -> str:
    """What came of a run that has ended, in one line."""
    document = run.documents.filter(state=Document.State.ACCEPTED).first()
    if run.state != State.DONE or document is None:
        return f"{run.job.title}: {run.state}. {run.failure}"
    return str(document.facts["summary"])
