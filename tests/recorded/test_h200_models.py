"""The recorded steps of whole models on an H200: whole, anonymous, and consistent with themselves."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from benchapp.ingest import schema
from benchapp.ingest.actions import ingest_file
from benchapp.local.first_jobs import RECORDED
from benchapp.runs.models import Document, Measurement

FILES = sorted(RECORDED.glob("moe-*.json.gz"))
pytestmark = pytest.mark.skipif(not FILES, reason="no whole model has been recorded yet")
#: A failure in a recording is a result too, but nothing may have been wrong or unchecked.
OUTCOMES = {"ok", "unsupported", "timeout", "oom"}
#: Whose kernels a step is meant to be of.
MEASURED = ("flashinfer", "cublas", "nccl", "torch")
BACKEND = "flashinfer+flashinfer.cutlass_fused_moe.autotuned"

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def parsed(path: Path) -> schema.Document:
    return schema.parse(gzip.decompress(path.read_bytes()))


def steps(path: Path) -> list[tuple[schema.Measurement, schema.Step]]:
    """What was timed of whole models."""
    return [(item, item.step) for item in parsed(path).measurements if item.step is not None]


def test_there_is_a_decode_of_a_whole_model_at_batch_64():
    timed = [(item, step) for path in FILES for item, step in steps(path)]
    assert any(
        item.params["batch"] == 64 and item.outcome == "ok" and step.projected_s is None
        for item, step in timed
    )


@every_file
def test_it_names_no_machine(path: Path):
    text, document = gzip.decompress(path.read_bytes()).decode(), parsed(path)
    assert document.kind == "moe"
    assert document.target.model == "NVIDIA H200" and document.target.arch == "sm90"
    label = document.target.host
    assert label.startswith("recorded-h200") and document.target.uuid == f"GPU-{label}"
    assert document.logs == {}
    assert re.findall(r"GPU-[0-9a-f]{8}-", text) == []
    assert re.findall(r'(?<![\w.])/(?:home|root|tmp|work|mnt|usr)/[^"]*', text) == []


@every_file
def test_nothing_in_it_was_wrong_or_unchecked(path: Path):
    for item in parsed(path).measurements:
        assert item.outcome in OUTCOMES, item.error
        assert (item.outcome == "ok") == (item.error is None)
        if item.step is not None:
            assert item.correctness is not None and item.correctness.nan_count == 0


@every_file
def test_parts_and_libraries_of_a_step_are_all_of_its_traced_time(path: Path):
    for _, step in steps(path):
        assert step.traced_s is not None and sum(step.parts.values()) == pytest.approx(step.traced_s)
        gaps = step.parts.get("gaps", 0)
        overlap = step.overlap_s or 0
        kernels = sum(step.libraries.values())
        assert step.traced_s - gaps <= kernels * 1.001
        assert kernels <= (step.traced_s - gaps + overlap) * 1.02


@every_file
def test_tracing_hardly_changes_a_decode_of_batch_64(path: Path):
    for item, step in steps(path):
        if item.kind == "decode" and item.params["batch"] == 64:
            assert item.statistics is not None and step.traced_s is not None
            assert step.traced_s == pytest.approx(item.statistics.median, rel=0.05)


@every_file
def test_a_decode_of_batch_64_by_flashinfer_is_of_measured_libraries(path: Path):
    for item, step in steps(path):
        if item.kind == "decode" and item.params["batch"] == 64 and item.backend == BACKEND:
            assert step.traced_s is not None
            assert sum(step.libraries.get(name, 0) for name in MEASURED) >= 0.85 * step.traced_s


@every_file
@pytest.mark.django_db(transaction=True)
def test_a_first_start_takes_it_in_as_recorded_and_none_of_it_is_impossible(path: Path):
    document, _ = ingest_file(path, origin=Document.Origin.RECORDED)
    assert document.state == Document.State.ACCEPTED, document.fault
    rows = Measurement.objects.filter(document=document)
    assert rows.count() == len(parsed(path).measurements)
    assert not rows.filter(flags__contains=["impossible"]).exists()
