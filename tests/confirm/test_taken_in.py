"""Documents of A/Bs on their way in: what is stored of them, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from benchapp.alerts.models import Alert, Comparison
from benchapp.catalog.models import Case
from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive, request_run
from benchapp.runs.models import Document, Job, Measurement, Run, State
from benchapp.runs.requests import confirm
from tests.confirm.sides import SMALL
from workers.bench import document as bench

OLD, NEW = {"torch": "2.11.0", "flashinfer": "0.6.3"}, {"torch": "2.11.0", "flashinfer": "0.6.9"}


def comparison(**values: Any) -> bench.Comparison:
    told = {
        "kind": "gemm", "params": dict(SMALL.params), "backend": "torch.mm", "metric": "time",
        "verdict": "SLOW",
        "old_stack": OLD, "new_stack": NEW, "ratio": 1.1, "low": 1.09, "high": 1.11, "pairs": 5,
        "old": (1.0,) * 5, "new": (1.1,) * 5,
    }  # fmt: skip
    return bench.Comparison(**{**told, **values})


def document(*comparisons: bench.Comparison) -> bench.Document:
    return bench.Document(
        kind="confirm",
        command=("python", "-m", "workers.bench", "confirm"),
        started_at="2026-11-01T00:00:00.000Z",
        finished_at="2026-11-01T00:01:00.000Z",
        target=bench.Target("gpu", "sm90", model="NVIDIA H200", uuid="GPU-1", host="boxa"),
        stack=NEW,
        comparisons=comparisons or (comparison(),),
    )


def take_in(written: bench.Document | bytes, run: Run | None = None) -> Document:
    body = written if isinstance(written, bytes) else written.dumps().encode()
    row, _ = receive(body, origin=Document.Origin.FILE, name="ab.json", run=run)
    return ingest(row.pk)


@pytest.mark.django_db
def test_every_comparison_is_stored_with_both_stacks_and_no_measurement():
    missing = {"ratio": None, "low": None, "high": None, "pairs": 0, "verdict": "AMBG", "why": "no pair"}
    unsupported = comparison(
        backend="other", **missing, old=(None,) * 2, new=(1.0,) * 2, old_outcome="unsupported: no such kernel"
    )
    host = comparison(metric="host_time", verdict="SAME", ratio=1.0, low=0.999, high=1.001)
    row = take_in(document(comparison(), host, unsupported))
    assert row.state == Document.State.ACCEPTED, row.fault
    found = list(Comparison.objects.filter(document=row).order_by("pk"))
    assert [(each.metric, each.verdict, each.ratio) for each in found] == [
        ("time", "SLOW", 1.1),
        ("host_time", "SAME", 1.0),
        ("time", "AMBG", None),
    ]
    assert {each.case_id for each in found} == {Case.objects.get().pk}
    assert (found[0].old_stack.components, found[0].new_stack.components) == (OLD, NEW)
    assert found[0].target.uuid == "GPU-1"
    assert found[2].facts["old_outcome"] == "unsupported: no such kernel"
    assert found[0].facts["new"] == [1.1] * 5
    assert not Measurement.objects.filter(document=row).exists()
    assert row.facts["summary"] == "confirm sm90: 3 comparisons, 1 SLOW, 1 SAME, 1 AMBG"


@pytest.mark.django_db
def test_the_comparisons_of_a_run_belong_to_its_alert_and_end_it():
    alert = Alert.objects.create(key="a", kind="stack", title="t", sentence="s", worse=True, certain=False)
    request = confirm([SMALL], bench="gemm", old={"torch": "2.12.0"}, new={"torch": "2.13.0"}, alert=alert.pk)
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    Run.objects.filter(pk=run.pk).update(state=State.RUNNING)
    Run.objects.filter(pk=run.pk).update(state=State.DELIVERED)
    row = take_in(document(), run)
    assert row.state == Document.State.ACCEPTED, row.fault
    run.refresh_from_db()
    assert run.state == State.DONE
    assert run.comparisons.get().alert == alert


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"low": 1.2}, "low ≤ ratio ≤ high does not hold"),
        ({"ratio": 1e300}, "comparisons[0].ratio: Input should be less than or equal to"),
        ({"ratio": 0.0, "low": 0.0}, "comparisons[0].ratio: Input should be greater than or equal to"),
        ({"low": None}, "low and high are there together"),
        ({"ratio": None, "low": None, "high": None}, "verdict SLOW needs ratio, low and high"),
        ({"verdict": "FAST"}, "verdict FAST does not fit its interval"),
        ({"verdict": "SLOWISH"}, "comparisons[0].verdict: Input should be 'SAME', 'FAST', 'SLOW' or 'AMBG'"),
        ({"metric": "power"}, "comparisons[0].metric"),
        ({"pairs": 6}, "6 pairs, and 5 processes of either side have a value"),
        ({"pairs": 101}, "comparisons[0].pairs"),
        ({"old": (1.0,) * 101}, "comparisons[0].old"),
        ({"old": (-1.0,) * 5}, "comparisons[0].old[0]"),
        ({"old_clock_mhz": (1980.0,)}, "a clock for each of its processes, or none"),
        ({"in_cycles": True}, "in_cycles needs cycles_ratio"),
        ({"old_stack": {}}, "comparisons[0].old_stack"),
        ({"kind": "unheard_of"}, "unheard_of"),
        ({"params": {"m": 16}}, "comparisons[0]"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_by_its_place(values, fault):
    row = take_in(document(comparison(**values)))
    assert row.state == Document.State.REJECTED
    assert fault in row.fault
    assert not Comparison.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("number", ["NaN", "Infinity", '"1.1"', "1e999"])
def test_what_is_no_number_is_refused(number):
    written = document().dumps().replace('"ratio":1.1', f'"ratio":{number}')
    assert take_in(written.encode()).state == Document.State.REJECTED


@pytest.mark.django_db
def test_comparisons_are_alone_in_their_document():
    told = json.loads(document().dumps())
    empty = take_in(json.dumps(told | {"comparisons": []}).encode())
    assert "a document of kind confirm holds comparisons alone" in empty.fault
    other = take_in(json.dumps(told | {"kind": "gemm"}).encode())
    assert "a document of kind confirm holds comparisons alone" in other.fault


@pytest.mark.django_db
def test_too_many_comparisons_are_refused():
    many = dataclasses.replace(document(), comparisons=(comparison(),) * 5_001)
    assert "comparisons: Tuple should have at most 5000 items" in take_in(many).fault


@pytest.mark.django_db
def test_a_run_shows_what_its_sides_said(client):
    request = confirm([SMALL], bench="gemm", old={"torch": "2.12.0"}, new={"torch": "2.13.0"})
    run, _ = request_run(request, user=None, source=Job.Source.COMMAND)
    for state in (State.RUNNING, State.DELIVERED):
        Run.objects.filter(pk=run.pk).update(state=state)
    lost = {
        "ratio": None,
        "low": None,
        "high": None,
        "pairs": 0,
        "verdict": "AMBG",
        "why": "no pair has a value",
    }
    take_in(document(comparison(), comparison(backend="other", **lost, new_outcome="crashed: SIGSEGV")), run)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    for words in (
        "torch 2.13.0 against torch 2.12.0", "▲ SLOW", "1.1000", "1.0900 – 1.1100", "GPU time",
        "flashinfer&nbsp;0.6.3&nbsp;→&nbsp;0.6.9", "~ AMBG", "no pair has a value", "new: crashed: SIGSEGV",
    ):  # fmt: skip
        assert words in page, words
