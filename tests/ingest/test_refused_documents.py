"""Documents that are refused: each fault names its place, and nothing else is touched."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.alerts.models import Event
from benchapp.catalog import models as catalog
from benchapp.ingest import measurements, schema
from benchapp.ingest.actions import Unreadable, ingest, ingest_file
from benchapp.runs.actions import Request, receive, request_run
from benchapp.runs.models import Document, Job, Measurement, Run, State
from benchapp.runs.work import claim, deliver
from tests.ingest.documents import body, broken, gemm, measurement
from tests.tiles.listed import UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import IN_0_6_3, findings_of, survey
from workers.bench.document import Finding, Target

pytestmark = pytest.mark.django_db
FIRST: list[str | int] = ["measurements", 0]


def take_in(content: bytes) -> Document:
    row, _ = receive(content, origin=Document.Origin.FILE)
    return ingest(row.pk)


@pytest.mark.parametrize(
    ("kind", "params", "fault"),
    [
        ("serving", {"model": "x"}, "params.concurrency: expected"),
        ("serving", {"model": "x", "concurrency": "a"}, "params.concurrency: expected"),
        ("all_reduce", {"tokens": 8, "hidden": 64}, "params.ranks: expected"),
        ("all_to_all", {"tokens": 8, "hidden": 64, "ranks": 0}, "params.ranks: expected"),
    ],
)
def test_what_a_page_reads_of_a_case_must_be_there(kind: str, params: dict[str, Any], fault: str):
    told = dataclasses.replace(measurement(), kind=kind, params=params)
    row = take_in(gemm(told).dumps().encode())
    assert row.state == Document.State.REJECTED and fault in row.fault


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (["schema_version"], 2, "schema_version: Input should be 1, found 2"),
        (["stack"], ..., "stack: Field required"),
        (["surprise"], 1, "surprise: Extra inputs are not permitted"),
        ([*FIRST, "statistics", "median"], -1.0, "measurements[0].statistics.median: "),
        ([*FIRST, "samples"], [1.0, -2.0], "measurements[0].samples[1]: "),
        ([*FIRST, "samples"], [float("nan")], "measurements[0].samples[0]: "),
        ([*FIRST, "correctness", "cosine"], float("inf"), "measurements[0].correctness.cosine: "),
        ([*FIRST, "outcome"], "splendid", "measurements[0].outcome: "),
        ([*FIRST, "measured_at"], "yesterday", "measurements[0].measured_at: "),
        (
            [*FIRST, "measured_at"],
            "2098-01-01T00:00:00Z",
            "measurements[0]: measured_at lies more than a day",
        ),
        ([*FIRST, "measured_at"], "1999-01-01T00:00:00Z", "measurements[0].measured_at: "),
        ([*FIRST, "measured_at"], 1790000000, "measurements[0].measured_at: "),
        ([*FIRST, "statistics", "median"], 5e-324, "measurements[0].statistics.median: "),
        ([*FIRST, "statistics", "n"], "3", "measurements[0].statistics.n: "),
        (["kind"], "tiles", "document: a document of kind tiles holds evidence"),
        (["target", "arch"], "x" * 13, "target.arch: "),
        (
            [*FIRST, "measured_at"],
            "2026-11-01T00:00:00",
            "measurements[0].measured_at: Input should have timezone",
        ),
        ([*FIRST, "correctness"], None, "measurements[0]: outcome ok needs correctness"),
        (
            [*FIRST, "statistics", "q1"],
            5.0,
            "measurements[0].statistics: min ≤ q1 ≤ median ≤ q3 does not hold",
        ),
        ([*FIRST, "params"], {}, "measurements[0].params: "),
        ([*FIRST, "params", "m"], 10**200, "measurements[0].params.m"),
        ([*FIRST, "flops"], 1e300, "measurements[0].flops: "),
        (
            ["target", "properties"],
            {"l2_bytes": "50 MB"},
            "target: properties.l2_bytes must be a number from 0",
        ),
        (["target", "host"], None, "target: a target of kind cpu needs host and model"),
        (["finished_at"], "2020-01-01T00:00:00Z", "document: finished_at lies before started_at"),
        ([*FIRST, "backend"], "a\x00b", "document: holds a NUL character"),
    ],
)
def test_a_fault_is_named_by_its_path(path: list[str | int], value: Any, fault: str):
    row = take_in(broken(gemm(), path, value))
    assert row.state == Document.State.REJECTED
    assert row.fault.startswith(fault)
    assert not Measurement.objects.exists()
    assert not catalog.Case.objects.exists()
    assert not catalog.Target.objects.exists()
    assert Event.objects.get(kind="document_rejected").payload == {"document": row.pk}


@pytest.mark.parametrize("version", ["a/b c", "", "9" * 41, "../../x", "<b>", "0.6.3 x", "\r=1+1"])
def test_evidence_of_something_that_is_no_version_is_refused(version: str):
    finding = Finding(
        "moe_grouped_gemm", "nvfp4xnvfp4", "bf16", (128, 128, 128), (1, 1, 1), "none", False, "auto",
        "dispatched", True, "generator",
    )  # fmt: skip
    document = dataclasses.replace(
        gemm(), kind="tiles", measurements=(), evidence=(finding,), stack={"flashinfer": version}
    )
    row = take_in(body(document))
    assert row.state == Document.State.REJECTED
    assert "stack.flashinfer" in row.fault or row.fault.startswith("stack.")


def test_evidence_of_a_family_that_the_release_cannot_hold_is_refused():
    ours = findings_of(IN_0_6_3[:1])
    row = take_in(body(dataclasses.replace(survey("0.6.3", "4.2.1", ours), stack={"cutlass": "4.2.1"})))
    assert row.fault == (
        "document: evidence of moe_grouped_gemm belongs to a release of FlashInfer, and the stack names one "
        "of CUTLASS"
    )
    explored = [dataclasses.replace(finding, family="explored_gemm") for finding in ours]
    assert "belongs to a release of CUTLASS" in take_in(body(survey("0.6.3", "4.2.1", explored))).fault


@pytest.mark.parametrize("cutlass", ["x", "9" * 41, "4.2.1\r=1+1"])
def test_evidence_on_a_cutlass_that_is_no_version_is_refused(cutlass: str):
    row = take_in(body(survey("0.6.3", cutlass, findings_of(IN_0_6_3[:1]))))
    assert row.fault == "document: stack.cutlass is no version, expected one such as 4.2.1"


def test_a_variant_that_is_listed_twice_is_refused_in_a_sentence():
    document = listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7)
    again = dataclasses.replace(document.listings[0], tactics=(), instantiated=False)
    row = take_in(body(dataclasses.replace(document, listings=(*document.listings, again))))
    assert row.fault == "document: listings name one variant twice"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"schema_version": 1',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        json.dumps({"schema_version": 1, "kind": "gemm"}).encode(),
    ],
)
def test_anything_else_than_a_document_is_refused_in_a_sentence(content: bytes):
    row = take_in(content)
    assert row.state == Document.State.REJECTED
    assert 0 < len(row.fault) < 2000


def test_text_about_a_nul_is_no_nul():
    finding = Finding(
        "moe_grouped_gemm", "nvfp4xnvfp4", "bf16", (128, 128, 128), (1, 1, 1), "none", False, "auto",
        "dispatched", True, "generator", log="unit",
    )  # fmt: skip
    document = dataclasses.replace(
        gemm(), kind="tiles", measurements=(), evidence=(finding,), stack={"flashinfer": "0.6.3"},
        logs={"unit": r'char *s = "\u0000";'},
    )  # fmt: skip
    assert take_in(body(document)).fault == ""


def test_an_empty_document_has_measured_nothing():
    row = take_in(broken(gemm(), ["measurements"], []))
    assert row.fault == "document: holds neither measurements nor evidence"


def test_one_bad_measurement_among_good_ones_stores_none():
    row = take_in(broken(gemm(measurement(1), measurement(2)), ["measurements", 1, "flops"], -1))
    assert row.fault.startswith("measurements[1].flops: ")
    assert not Measurement.objects.exists()


def test_a_rejected_document_may_be_tried_again_once_the_schema_allows_it(monkeypatch: pytest.MonkeyPatch):
    request = Request(Run.Kind.GEMM, "a test", "cpu", {"torch": "2.13.0"}, {})
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    claim(["cpu"], "w")
    with monkeypatch.context() as older:
        older.setattr(schema, "CLOCK_SKEW", dt.timedelta(days=-36500))
        row = ingest(deliver(run.pk, 1, body(gemm())))
    run.refresh_from_db()
    assert (row.state, run.state) == (Document.State.REJECTED, State.FAILED)
    call_command("ingest", "--again")
    row.refresh_from_db()
    run.refresh_from_db()
    assert (row.state, row.fault) == (Document.State.ACCEPTED, "")
    assert (run.state, run.failure) == (State.DONE, "")


@pytest.mark.django_db(transaction=True)
def test_trouble_of_the_database_leaves_the_document_in_the_inbox(monkeypatch: pytest.MonkeyPatch):
    def cut_off(*args: object) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return 0

    row, _ = receive(body(gemm()), origin=Document.Origin.FILE)
    with monkeypatch.context() as trouble, pytest.raises(OperationalError):
        trouble.setattr(measurements, "store", cut_off)
        ingest(row.pk)
    connection.close()
    row.refresh_from_db()
    assert row.state == Document.State.RECEIVED
    assert ingest(row.pk).state == Document.State.ACCEPTED


def test_a_mistake_of_our_own_refuses_the_document_once_instead_of_every_30_s(
    monkeypatch: pytest.MonkeyPatch,
):
    def mistaken(*args: object) -> int:
        raise TypeError("ours")

    with monkeypatch.context() as mistake:
        mistake.setattr(measurements, "store", mistaken)
        row = take_in(body(gemm()))
    assert row.fault == "document: Tilewatch could not take it in (TypeError)"
    call_command("ingest", "--again")
    row.refresh_from_db()
    assert row.state == Document.State.ACCEPTED


def test_a_good_document_after_a_refused_one_makes_the_run_done():
    request = Request(Run.Kind.GEMM, "a test", "cpu", {"torch": "2.13.0"}, {})
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    claim(["cpu"], "w")
    bad = deliver(run.pk, 1, b"{}")
    good = deliver(run.pk, 1, body(gemm()))
    assert ingest(bad).state == Document.State.REJECTED
    run.refresh_from_db()
    assert run.state == State.FAILED
    assert ingest(good).state == Document.State.ACCEPTED
    run.refresh_from_db()
    assert (run.state, run.failure) == (State.DONE, "")


def test_a_hundred_faults_are_counted_and_five_are_told():
    content = json.loads(body(gemm()))
    content |= {f"surprise_{number}": number for number in range(100)}
    row = take_in(json.dumps(content).encode())
    assert row.fault.count("Extra inputs are not permitted") == 5
    assert row.fault.endswith("and 95 more")


def test_a_list_of_faulty_items_is_read_up_to_the_first():
    content = json.loads(body(gemm(*(measurement(m) for m in range(1, 101)))))
    for item in content["measurements"][3:]:
        item["flops"] = -1
    row = take_in(json.dumps(content).encode())
    assert row.fault == "measurements[3].flops: Input should be greater than or equal to 0, found -1"


@pytest.mark.parametrize(
    "content", [b'{"evidence":[' + b"0," * 4_000_000 + b"0]}", b'{"x":[' + b"[]," * 2_000_000 + b"[]]}"]
)
def test_megabytes_of_faults_are_refused_without_gigabytes_of_memory(content: bytes):
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30)); "
        "from benchapp.ingest import schema\n"
        "try: schema.parse(sys.stdin.buffer.read())\n"
        "except schema.Fault as fault: print(str(fault)[:300])"
    )
    done = subprocess.run([sys.executable, "-c", script], input=content, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    assert b"Field required" in done.stdout or b"not permitted" in done.stdout


def test_a_gpu_is_one_product_for_good():
    def on(model: str, day: int) -> Document:
        target = Target("gpu", "sm90", model=model, uuid="GPU-1", host="h", properties={"l2_bytes": day})
        document = dataclasses.replace(gemm(measurement(day)), target=target)
        return take_in(body(dataclasses.replace(document, finished_at=f"2026-11-{day:02}T00:01:00Z")))

    assert on("NVIDIA H200", 5).state == Document.State.ACCEPTED
    assert on("NVIDIA B200", 6).fault == "target: GPU-1 is known as NVIDIA H200 (sm90)"
    assert on("NVIDIA H200", 2).state == Document.State.ACCEPTED
    assert catalog.Target.objects.get().properties == {"l2_bytes": 5}  # of the newest, not the last to come


def test_targets_are_told_apart_whatever_their_names_hold():
    for number, (host, model) in enumerate([("a:b", "c"), ("a", "b:c"), ("h" * 100, "m" * 119 + "1")]):
        target = Target("cpu", "x86_64", model=model, host=host)
        assert take_in(body(gemm(measurement(number + 1), target=target))).state == Document.State.ACCEPTED
    assert catalog.Target.objects.count() == 3


def test_a_document_of_100_mb_is_refused_before_it_is_read(tmp_path: Path):
    path = tmp_path / "huge.json"
    with path.open("wb") as out:
        out.truncate(100 * 1024 * 1024)
    with pytest.raises(Unreadable, match=r"huge\.json: larger than 33,554,432 bytes"):
        ingest_file(path, origin=Document.Origin.FILE)
    assert not Document.objects.exists()


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path):
    with pytest.raises(Unreadable, match="No such file"):
        ingest_file(tmp_path / "none.json", origin=Document.Origin.FILE)


def test_a_packed_file_is_taken_as_what_it_holds(tmp_path: Path):
    plain, packed = tmp_path / "document.json", tmp_path / "document.json.gz"
    plain.write_bytes(body(gemm()))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    row, new = ingest_file(packed, origin=Document.Origin.FILE)
    assert new and row.state == Document.State.ACCEPTED
    assert ingest_file(plain, origin=Document.Origin.FILE) == (row, False)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: b"{}", lambda data: data[:10] + b"x" * 50]
)
def test_a_damaged_packed_file_is_said_to_be_one(tmp_path: Path, damage):
    packed = tmp_path / "document.json.gz"
    packed.write_bytes(damage(gzip.compress(body(gemm()))))
    with pytest.raises(Unreadable, match=r"document\.json\.gz: not a whole gzip file"):
        ingest_file(packed, origin=Document.Origin.FILE)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path, settings):
    settings.DOCUMENT_LIMIT_BYTES = 1_000_000
    packed = tmp_path / "bomb.json.gz"
    packed.write_bytes(gzip.compress(b" " * 50_000_000))
    with pytest.raises(Unreadable, match=r"bomb\.json\.gz: larger than 1,000,000 bytes"):
        ingest_file(packed, origin=Document.Origin.FILE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
places = st.sampled_from(
    [[name] for name in json.loads(gemm().dumps())]
    + [["measurements", 0, name] for name in json.loads(gemm().dumps())["measurements"][0]]
    + [["target", name] for name in json.loads(gemm().dumps())["target"]]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places, json_values)
def test_whatever_stands_in_a_field_is_accepted_or_faulted_never_a_crash(path: list[str | int], value: Any):
    try:
        document = schema.parse(broken(gemm(), path, value))
    except schema.Fault as fault:
        assert str(fault)
    else:
        assert document.schema_version == 1
