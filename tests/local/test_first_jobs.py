"""What an installation asks for by itself, and what `--wait` says of it."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.alerts.models import Event
from benchapp.ingest.actions import ingest
from benchapp.local import first_jobs
from benchapp.local.first_jobs import RECORDED, ask, take_recorded
from benchapp.runs import work
from benchapp.runs.models import Document, Job, Run, State
from tests.ingest.documents import body, gemm
from tests.tiles.surveys import IN_0_6_3, survey, variant

pytestmark = pytest.mark.django_db(transaction=True)


def finish(run: Run, content: bytes) -> None:
    claimed = work.claim([run.queue], "w")
    assert claimed is not None
    assert claimed.run_id == run.pk
    ingest(work.deliver(run.pk, claimed.attempt, content))


def surveyed() -> bytes:
    return body(survey("0.6.3", "4.2.1", itertools.chain.from_iterable(variant(*row) for row in IN_0_6_3)))


@pytest.fixture
def nothing_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares a test the reading of what it says nothing about."""
    monkeypatch.setattr(first_jobs, "RECORDED", tmp_path)


def wait(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], Any]:
    """The lines that `first_jobs --wait` prints, and its exit status."""
    status = None
    try:
        call_command("first_jobs", "--wait")
    except SystemExit as end:
        status = end.code
    return capsys.readouterr().out.splitlines(), status


def test_two_jobs_are_asked_for_once_and_the_second_waits_for_the_first():
    first, second = ask()
    assert (first.kind, second.kind) == (Run.Kind.TILES, Run.Kind.GEMM)
    assert second.waits_for == first
    assert work.claim([second.queue], "w") is None
    assert [run.pk for run in ask()] == [first.pk, second.pk]
    assert Job.objects.count() == 2


def test_recorded_results_are_there_from_the_first_start_and_say_what_they_are():
    take_recorded()
    recorded = Document.objects.filter(origin=Document.Origin.RECORDED)
    assert {row.name for row in recorded} == {path.name for path in RECORDED.iterdir()}
    for row in recorded:
        assert (row.state, row.run) == (Document.State.ACCEPTED, None)
        assert row.get_origin_display() == "recorded elsewhere"
    assert not Event.objects.exists()


@pytest.mark.usefixtures("nothing_recorded")
def test_one_line_a_job_and_a_good_end(capsys: pytest.CaptureFixture[str]):
    first, second = ask()
    finish(first, surveyed())
    finish(second, body(gemm()))
    lines, status = wait(capsys)
    assert lines == [
        "survey flashinfer=0.6.3 sm120 nvfp4: 16 tile variants, 14 fit, 2 overflow by 1,024 B",
        "gemm torch=2.13.0 x86_64: 1 case, 1 ok, best 33.6 GFLOP/s (gemm bf16 16 × 1024 × 1024)",
    ]
    assert status is None


@pytest.mark.usefixtures("nothing_recorded")
def test_a_failed_job_is_said_and_ends_badly(capsys: pytest.CaptureFixture[str]):
    first, second = ask()
    work.claim([first.queue], "w")
    work.fail(first.pk, 1, "no_network", "No package index answers.")
    finish(second, body(gemm()))
    lines, status = wait(capsys)
    assert lines[0] == "Tile survey of FlashInfer 0.6.3 on SM120: failed. No package index answers."
    assert status == 1


@pytest.mark.usefixtures("nothing_recorded")
def test_a_job_that_stored_nothing_has_failed(capsys: pytest.CaptureFixture[str]):
    first, second = ask()
    finish(first, surveyed())
    finish(second, body(dataclasses.replace(gemm(), measurements=())))
    lines, status = wait(capsys)
    assert "holds neither measurements nor evidence" in lines[1]
    assert Run.objects.get(pk=second.pk).state == State.FAILED
    assert status == 1
