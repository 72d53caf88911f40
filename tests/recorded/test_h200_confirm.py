"""What A/Bs of FlashInfer versions on an H200 said, as the product stores it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.alerts.models import Comparison
from benchapp.ingest.actions import ingest_file
from benchapp.runs.models import Document

FOLDER = Path(__file__).with_name("confirm")


def compared(name: str) -> dict[tuple[str, str, str, str], Comparison]:
    """By old and new FlashInfer, backend and metric."""
    row, _ = ingest_file(FOLDER / name, origin=Document.Origin.FILE)
    assert row.state == Document.State.ACCEPTED, row.fault
    return {
        (
            each.old_stack.components["flashinfer"],
            each.new_stack.components["flashinfer"],
            each.backend,
            each.metric,
        ): each
        for each in Comparison.objects.filter(document=row).select_related("old_stack", "new_stack")
    }


@pytest.mark.django_db
def test_paged_decode_moved_in_gpu_time_and_bmm_fp8_did_not():
    found = compared("h200-0.6.3-against-0.6.18.post1.json")
    sides = ("0.6.3", "0.6.18.post1")
    decode = found[*sides, "flashinfer.batch_decode", "time"]
    assert decode.verdict == "FAST"
    assert 0.98 < decode.low < decode.ratio < decode.high < 0.99
    for backend in ("flashinfer.bmm_fp8.cublas", "flashinfer.bmm_fp8.cudnn"):
        assert found[*sides, backend, "time"].verdict == "SAME"
        # processes of one version differ by more than the versions do
        assert found[*sides, backend, "host_time"].verdict == "AMBG"


@pytest.mark.django_db
def test_the_first_version_with_the_faster_paged_decode_is_0_6_10():
    found = compared("h200-bisect-batch-decode.json")
    verdicts = {(old, new): each.verdict for (old, new, _, metric), each in found.items() if metric == "time"}
    assert verdicts == {
        ("0.6.3", "0.6.18.post1"): "FAST",
        ("0.6.3", "0.6.11.post1"): "FAST",
        ("0.6.3", "0.6.9"): "SAME",
        ("0.6.3", "0.6.10"): "FAST",
        ("0.6.9", "0.6.10"): "FAST",
    }
    step = found["0.6.9", "0.6.10", "flashinfer.batch_decode", "time"]
    assert 0.98 < step.low < step.high < 0.99


@pytest.mark.django_db
def test_a_version_against_itself_is_the_same_or_uncertain():
    row, _ = ingest_file(FOLDER / "h200-0.6.9-against-itself.json", origin=Document.Origin.FILE)
    assert row.state == Document.State.ACCEPTED, row.fault
    said = {
        (each.case.params.get("m"), each.metric): each
        for each in Comparison.objects.filter(document=row).select_related("case")
    }
    assert {each.verdict for each in said.values()} == {"SAME", "AMBG"}
    under_the_power_cap = said[8192, "time"]
    assert under_the_power_cap.in_cycles and under_the_power_cap.verdict == "AMBG"
    assert [said[m, "time"].verdict for m in (None, 4096, 16)] == ["SAME"] * 3


@pytest.mark.django_db
def test_a_build_that_grew_is_seen_and_an_uncertain_step_ends_its_bisect():
    row, _ = ingest_file(FOLDER / "bisect-build-page.json", origin=Document.Origin.FILE)
    assert row.state == Document.State.ACCEPTED, row.fault
    of_builds = Comparison.objects.filter(document=row, metric="cpu_time").select_related("new_stack")
    said = {each.new_stack.components["flashinfer"]: each for each in of_builds}
    assert {version: each.verdict for version, each in said.items()} == {
        "0.6.18.post1": "SLOW",
        "0.6.13": "AMBG",
    }
    assert said["0.6.18.post1"].low > 1.15
    (note,) = row.facts["notes"]
    assert note.endswith("with 0.6.18.post1 at the latest; the A/B of 0.6.13 is uncertain.")
