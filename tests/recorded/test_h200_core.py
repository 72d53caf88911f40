"""What five FlashInfer versions did on H200s: measured, complete, anonymous, and both traps in it."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from django.urls import reverse

from benchapp.ingest import schema
from benchapp.ingest.actions import ingest_file
from benchapp.runs.models import Document, Measurement
from workers.bench import timing
from workers.bench.cases.parse import from_params
from workers.bench.document import Statistics
from workers.bench.suites import SUITES

ROOT = Path(__file__).resolve().parents[2]
RECORDED = {
    path.name.removeprefix("gemm-h200-flashinfer-").removesuffix(".json.gz"): path
    for path in (ROOT / "benchapp" / "recorded").glob("gemm-h200-flashinfer-*.json.gz")
}
VERSIONS = ("0.5.3", "0.6.3", "0.6.9", "0.6.13", "0.6.18.post1")
PROCESSES = Path(__file__).parent / "h200"
#: left out of the recording, and said so in its notes
LEFT_OUT = {"decode_attention"}
ORIGIN = Document.Origin.FILE


@pytest.fixture(params=VERSIONS)
def text(request):
    return gzip.decompress(RECORDED[request.param].read_bytes()).decode()


def test_each_version_is_there_and_no_other():
    assert set(RECORDED) == set(VERSIONS)


def test_it_is_what_ingest_takes_and_names_no_machine(text):
    document = schema.parse(text.encode())
    assert document.target.host == document.target.uuid.removeprefix("GPU-")
    assert document.target.host in ("recorded-h200-a", "recorded-h200-b")
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)
    assert document.notes and document.notes[0].startswith("Left out of this recording")


def test_every_case_of_the_suite_is_there_but_what_the_notes_leave_out(text):
    found = {
        str(from_params(each["kind"], each["params"], "case")) for each in json.loads(text)["measurements"]
    }
    assert found == {str(case) for case in SUITES["h200-core"] if case.kind not in LEFT_OUT}


def test_times_are_kernel_times_of_real_samples_and_hold_no_host_time(text):
    for found in json.loads(text)["measurements"]:
        if found["outcome"] != "ok":
            continue
        own_timer = found["params"].get("timer", "cupti")
        assert found["timer"] == own_timer and not {"fallback_timer"} & set(found["flags"])
        assert Statistics(**found["statistics"]) == timing.summarise(found["samples"])
        assert found["kernel"] and found["host_time"]["median"] > 0
        assert found["correctness"]["nan_count"] == 0
        if found["kind"] != "empty_kernel":
            assert found["l2_policy"] in ("rotated", "flushed")


def test_fp4_and_mxfp8_products_are_unsupported_in_the_librarys_words(text):
    narrow = [
        each
        for each in json.loads(text)["measurements"]
        if each["kind"] == "gemm" and each["params"]["dtype"] in ("nvfp4", "mxfp8")
    ]
    assert Counter(each["outcome"] for each in narrow) == {"unsupported": len(narrow)}
    assert all(each["error"] and each["statistics"] is None for each in narrow)


@pytest.mark.django_db
def test_a_kernel_that_does_nothing_is_incorrect_and_too_fast_to_be_true():
    for version in VERSIONS:
        stored, _ = ingest_file(RECORDED[version], origin=Document.Origin.RECORDED)
        assert stored.state == Document.State.ACCEPTED, stored.fault
    rows = Measurement.objects.filter(series__backend="flashinfer.nvfp4_quantize")
    by_size = {size: rows.filter(series__case__size=size) for size in (4096, 16384)}
    for found in by_size.values():
        assert found.count() == len(VERSIONS)
        assert {row.outcome for row in found} == {"incorrect"} and all(row.median < 1e-6 for row in found)
    assert all("impossible" in row.flags for row in by_size[16384])
    assert not any("impossible" in row.flags for row in by_size[4096])
    others = Measurement.objects.exclude(series__case__kind="quantize")
    assert not others.filter(flags__contains=["impossible"]).exists()


@pytest.mark.django_db
def test_bmm_fp8_of_two_versions_is_the_same_on_the_gpu_and_its_host_time_uncertain(client):
    for version in ("0.6.3", "0.6.18.post1"):
        ingest_file(PROCESSES / f"bmm_fp8-five-processes-{version}-cupti.json", origin=ORIGIN)
    page = client.get(reverse("trends:compare"))
    (only,) = page.context["rows"]
    assert only["row"].verdict == "same" and only["row"].host_verdict == "uncertain"
