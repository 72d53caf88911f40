"""What a message says of an alert."""

from __future__ import annotations

import datetime as dt

import pytest

from benchapp.alerts.messages import compose, message_of
from benchapp.alerts.models import Change, Comparison, Delivery
from benchapp.runs.models import Document

pytestmark = pytest.mark.django_db
NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


@pytest.fixture
def alert(make_alert, series):
    alert = make_alert(
        suspects=[
            {"component": "flashinfer", "before": "0.6.3", "after": "0.6.9", "share": 0.8, "why": "alone"}
        ]
    )
    for at, (before, after) in enumerate([(10e-6, 12e-6), (10e-6, 11e-6)]):
        Change.objects.create(
            series=series, alert=alert, at=NOW + dt.timedelta(hours=at), before_at=NOW,
            stack_before=alert.stack_before, stack_after=alert.stack_after, before=before, after=after,
            ratio=after / before, low=1.05, high=1.25, confidence=1, certain=True, worse=True, n_before=9,
            n_after=3,
        )  # fmt: skip
    return alert


def test_it_names_levels_versions_cause_and_certainty(alert):
    facts = dict(compose(alert, "opened")["facts"])
    nbsp = "\u00a0"
    assert facts == {
        "Kind": "moved with a version",
        "Where": "NVIDIA H200 on boxb",
        "Strongest": "decode glm-5, batch 16 · flashinfer.cutlass on NVIDIA H200, GPU time",
        "Before → after": f"10.0{nbsp}µs → 12.0{nbsp}µs, 1.200× (95 %: 1.050× to 1.250×)",
        "Series that moved": "2",
        "Versions": "flashinfer 0.6.3 → 0.6.9",
        "Likeliest cause": f"flashinfer 0.6.3 → 0.6.9, 80{nbsp}%: alone",
        "How sure": "certain by what was seen",
    }


def test_a_verdict_comes_with_its_interval(alert, series):
    document = Document.objects.create(sha256="f" * 64, body=b"{}", size=2, kind="confirm")
    Comparison.objects.create(
        document=document, alert=alert, target=series.target, case=series.case, metric="time",
        old_stack=alert.stack_before, new_stack=alert.stack_after, verdict="SLOW", ratio=1.19, low=1.17,
        high=1.21, pairs=6,
    )  # fmt: skip
    alert.verdict = "SLOW"
    facts = dict(compose(alert, "updated")["facts"])
    assert facts["How sure"] == "A/B says SLOW: 1.190× (95 %: 1.170× to 1.210×), 6 pairs"


@pytest.mark.parametrize("evidence", [{}, {"model": 7}, {"model": None}, []])
def test_what_a_kind_wrote_oddly_is_left_out(make_alert, evidence):
    alert = make_alert(
        "odd", ratio=None, stack_before=None, stack_after=None, target=None, host=None,
        suspects=[{"share": "x"}, 3], evidence=evidence,
    )  # fmt: skip
    facts = dict(compose(alert, "opened")["facts"])
    assert facts == {"Kind": "moved with a version", "How sure": "certain by what was seen"}


def test_a_link_needs_the_installations_address(alert, make_channel, settings):
    row = Delivery(pk=7, channel=make_channel("hooks"), thread="t", purpose="opened")
    row.message = compose(alert, "opened")
    settings.PUBLIC_URL = ""
    assert message_of(row).link == "" and message_of(row).path == f"/alerts/{alert.pk}/"
    settings.PUBLIC_URL = "https://bench.example.org"
    assert message_of(row).link == f"https://bench.example.org/alerts/{alert.pk}/"
