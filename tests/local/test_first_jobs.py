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
from tests.ingest.documents import body, gemm, measurement
from tests.tiles.surveys import IN_0_6_3, survey, variant
from workers.bench.document import Step

pytestmark = pytest.mark.django_db(transaction=True)


def finish(run: Run, content: bytes) -> None:
    claimed = work.claim([run.queue], "w")
    assert claimed is not None
    assert claimed.run_id == run.pk
    ingest(work.deliver(run.pk, claimed.attempt, content))


def surveyed() -> bytes:
    return body(survey("0.6.3", "4.2.1", itertools.chain.from_iterable(variant(*row) for row in IN_0_6_3)))


def decoded() -> bytes:
    """A step of 4 tokens in a millisecond."""
    params = {"model": "tiny-gqa", "batch": 4, "context": 24, "layers": 3, "tp": 1, "ep": 1, "dtype": "bf16"}
    step = Step(tokens=4, steps=100, window_s=0.1, gpus=1, layers=3, layers_total=3, weight_bytes=1000,
                kv_bytes=1000, peak_memory_bytes=4000)  # fmt: skip
    return body(dataclasses.replace(gemm(measurement(kind="decode", params=params, step=step)), kind="moe"))


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


def test_three_jobs_are_asked_for_once_and_each_waits_for_the_one_before():
    first, second, third = ask()
    assert (first.kind, second.kind, third.kind) == (Run.Kind.TILES, Run.Kind.GEMM, Run.Kind.MOE)
    assert (second.waits_for, third.waits_for) == (first, second)
    assert work.claim([second.queue], "w") is None
    assert [run.pk for run in ask()] == [first.pk, second.pk, third.pk]
    assert Job.objects.count() == 3
    assert third.recipe == second.recipe, "its environment is there already"
    assert third.params["device"] == "cpu" and not third.gpus
    (case,) = third.params["cases"]
    assert case["kind"] == "decode" and case["model"].startswith("tiny-")


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
    first, second, third = ask()
    finish(first, surveyed())
    finish(second, body(gemm()))
    finish(third, decoded())
    lines, status = wait(capsys)
    assert lines[:2] == [
        "survey flashinfer=0.6.3 sm120 nvfp4: 16 tile variants, 14 fit, 2 overflow by 1,024 B",
        "gemm torch=2.13.0 x86_64: 1 case, 1 ok, best 33.6 GFLOP/s (gemm bf16 16 × 1024 × 1024)",
    ]
    assert "1 case, 1 ok" in lines[2] and len(lines) == 3
    assert status is None


@pytest.mark.usefixtures("nothing_recorded")
def test_a_failed_job_is_said_and_ends_badly(capsys: pytest.CaptureFixture[str]):
    first, second, third = ask()
    work.claim([first.queue], "w")
    work.fail(first.pk, 1, "no_network", "No package index answers.")
    finish(second, body(gemm()))
    finish(third, decoded())
    lines, status = wait(capsys)
    assert lines[0] == "Tile survey of FlashInfer 0.6.3 on SM120: failed. No package index answers."
    assert status == 1


@pytest.mark.usefixtures("nothing_recorded")
def test_a_job_that_stored_nothing_has_failed(capsys: pytest.CaptureFixture[str]):
    first, second, third = ask()
    finish(first, surveyed())
    finish(second, body(dataclasses.replace(gemm(), measurements=())))
    finish(third, decoded())
    lines, status = wait(capsys)
    assert "holds neither measurements nor evidence" in lines[1]
    assert Run.objects.get(pk=second.pk).state == State.FAILED
    assert status == 1
