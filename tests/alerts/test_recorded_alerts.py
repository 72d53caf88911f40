"""What detection makes of the results that come with Tilewatch: five FlashInfer versions on one H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.alerts import watching
from benchapp.alerts.models import Alert, Change, Watch
from benchapp.ingest.actions import ingest_file
from benchapp.runs.models import Document

RECORDED = Path(__file__).resolve().parents[2] / "benchapp" / "recorded"


@pytest.fixture
def replayed(db) -> None:
    for path in sorted(RECORDED.glob("*h200*")):
        document, _ = ingest_file(path, origin=Document.Origin.RECORDED)
        assert document.state == Document.State.ACCEPTED, document.fault
    watching.look_at_all()


def test_the_recorded_results_make_few_alerts_and_the_sampling_steps_are_in_them(replayed):
    """Measured in the order 0.5.3, 0.6.18.post1, 0.6.3, 0.6.9: by time they would step to and fro."""
    assert Watch.objects.count() > 60
    assert not Watch.objects.exclude(failure="").exists()
    alerts = Alert.objects.all()
    assert 2 <= len(alerts) <= 6
    assert all(alert.recorded for alert in alerts), "history is no news"
    assert not any(alert.certain for alert in alerts), "one run a version is confirmed by no other"
    sampling = Change.objects.filter(
        series__case__label="sampling fp32 batch 4096 vocab 151936", series__backend__endswith=".top_k_first"
    ).select_related("alert", "stack_before", "stack_after")
    steps = {
        (each.stack_before.components["flashinfer"], each.stack_after.components["flashinfer"]): each
        for each in sampling
    }
    assert steps.keys() == {("0.5.3", "0.6.3"), ("0.6.9", "0.6.18.post1")}
    first, second = steps["0.5.3", "0.6.3"], steps["0.6.9", "0.6.18.post1"]
    assert (first.before, first.after) == pytest.approx((10.311e-3, 5.933e-3), rel=1e-3)
    assert (second.before, second.after) == pytest.approx((5.887e-3, 1.911e-3), rel=1e-3)
    for step in (first, second):
        assert (step.alert.kind, step.alert.worse) == ("stack", False)
        assert step.alert.suspects[0]["component"] == "flashinfer"
    assert "sampling fp32 batch 4096" in second.alert.title
