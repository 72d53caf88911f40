"""Documents that are taken in, and what is there afterwards."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.catalog.models import Case, Series
from benchapp.ingest import schema
from benchapp.ingest.actions import ingest, ingest_file
from benchapp.people.models import AuditEntry
from benchapp.runs import partitions
from benchapp.runs.actions import receive
from benchapp.runs.models import Document, Latest, Measurement, Sample
from benchapp.tiles.models import Listing
from tests.ingest.documents import body, fields, gemm, measurement
from tests.querycount import at_most
from tests.tiles.listed import FROM_0_6_8, UNTIL_0_6_7, listed_survey
from workers.bench import document as bench

pytestmark = pytest.mark.django_db


def take_in(content: bytes) -> Document:
    row, _ = receive(content, origin=Document.Origin.FILE)
    return ingest(row.pk)


def test_a_document_becomes_measurements_samples_and_the_latest_of_each_series():
    row = take_in(body(gemm(measurement(1), measurement(16), measurement(64))))
    assert row.state == Document.State.ACCEPTED
    assert row.fault == ""
    assert Measurement.objects.filter(document=row).count() == 3
    assert Sample.objects.count() == 3
    assert Latest.objects.count() == 3
    stored = Measurement.objects.get(document=row, series__case__params__m=16)
    assert (stored.median, stored.n, stored.timer, stored.cosine) == (1e-3, 2, "wall_clock", 0.999999)
    assert Sample.objects.get(measurement_id=stored.id).values == [1e-3, 1.01e-3]
    assert stored.series.backend == "torch"
    assert stored.series.case.label == "gemm bf16 16 × 1024 × 1024"


def test_the_raw_document_is_kept_byte_for_byte():
    content = body(gemm())
    assert bytes(take_in(content).body) == content


def test_the_same_document_twice_changes_nothing(tmp_path: Path):
    path = tmp_path / "one.json"
    path.write_bytes(body(gemm()))
    first, new = ingest_file(path, origin=Document.Origin.FILE)
    again, new_again = ingest_file(path, origin=Document.Origin.FILE)
    assert (new, new_again) == (True, False)
    assert first.pk == again.pk
    assert Measurement.objects.count() == 1
    assert AuditEntry.objects.filter(action="ingest_file").count() == 1


def test_equal_cases_of_two_documents_make_one_series():
    take_in(body(gemm(measurement(median=1e-3, hour=1))))
    take_in(body(gemm(measurement(median=2e-3, hour=2), torch="2.14.0")))
    assert Case.objects.count() == Series.objects.count() == 1
    latest = Latest.objects.get()
    assert latest.median == latest.good_median == 2e-3


def test_an_older_document_that_arrives_late_does_not_become_the_latest():
    take_in(body(gemm(measurement(median=2e-3, hour=2))))
    take_in(body(gemm(measurement(median=1e-3, hour=1))))
    assert Latest.objects.get().median == 2e-3


def test_a_failure_stays_visible_beside_the_last_good_result():
    take_in(body(gemm(measurement(median=1e-3, hour=1))))
    take_in(
        body(
            gemm(
                measurement(
                    outcome="oom",
                    hour=2,
                    samples=(),
                    statistics=None,
                    correctness=None,
                    timer=None,
                    error="no room",
                )
            )
        )
    )
    latest = Latest.objects.get()
    assert latest.outcome == "oom"
    assert latest.median is None
    assert latest.good_median == 1e-3
    assert latest.good_measured_at < latest.measured_at


def test_faster_than_the_hardware_is_flagged_impossible_and_never_ranks():
    h200 = bench.Target("gpu", "sm90", model="NVIDIA H200", uuid="GPU-1", host="h")
    square = {"m": 8192, "n": 8192, "k": 8192, "dtype": "bf16", "layout": "nt"}
    for policy, expected in (("flushed", ["impossible"]), ("unknown", [])):
        row = take_in(body(gemm(measurement(params=square, median=1e-4, l2_policy=policy), target=h200)))
        assert Measurement.objects.get(document=row).flags == expected
    assert Latest.objects.get().good_median == 1e-4  # the one of unknown policy


def test_measurements_of_any_month_find_a_partition_of_their_own():
    take_in(body(gemm(measurement(measured_at="2019-02-28T23:59:59.999Z"), measurement(32, day=1))))
    assert Measurement.objects.count() == 2
    assert partitions.rows_in_default() == {"runs_measurement": 0, "runs_sample": 0}


def test_many_measurements_take_no_more_queries_than_few():
    row, _ = receive(body(gemm(*(measurement(m) for m in range(1, 400)))), origin=Document.Origin.FILE)
    with at_most(45):
        ingest(row.pk)
    assert Measurement.objects.filter(document=row).count() == 399


def test_the_command_takes_files_and_names_the_ones_it_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(body(gemm()))
    bad.write_text("{}")
    with pytest.raises(CommandError, match="1 of 2 documents were refused"):
        call_command("ingest", good, bad)
    said = capsys.readouterr()
    assert "gemm torch=2.13.0 x86_64: 1 case, 1 ok, best 33.6 GFLOP/s" in said.out
    assert "bad.json: schema_version: Field required" in said.err


@pytest.mark.parametrize(
    ("plain", "checked"),
    [
        (bench.Document, schema.Document),
        (bench.Target, schema.Target),
        (bench.Finding, schema.Finding),
        (bench.Measurement, schema.Measurement),
        (bench.Statistics, schema.Statistics),
        (bench.Correctness, schema.Correctness),
        (bench.Readings, schema.Readings),
        (bench.Comparison, schema.Comparison),
    ],
)
def test_the_schema_knows_exactly_the_fields_that_a_bench_writes(plain: type, checked: type[schema.Strict]):
    assert fields(plain) == set(checked.model_fields)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "benchapp" / "recorded").glob("*.json")))
def test_every_recorded_document_is_accepted(path: Path):
    row, new = ingest_file(path, origin=Document.Origin.RECORDED)
    assert new
    assert row.state == Document.State.ACCEPTED, row.fault
    assert json.loads(bytes(row.body))["schema_version"] == bench.SCHEMA_VERSION


def test_the_lists_of_a_release_are_those_of_its_newest_survey_wherever_the_clocks_stood():
    newer = listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7)  # finished at 10:03 in UTC
    older = dataclasses.replace(
        listed_survey("0.6.3", "4.2.1", FROM_0_6_8),
        started_at="2026-11-01T18:00:00+09:00",
        finished_at="2026-11-01T18:03:00+09:00",
    )
    take_in(body(newer))
    take_in(body(older))
    assert set(Listing.objects.values_list("m", "n", "k")) == set(UNTIL_0_6_7)
