"""An A/B that a host measured on another GPU than it was asked for decides nothing."""

from __future__ import annotations

import pytest

from benchapp.alerts.confirm_rows import tried_of
from benchapp.alerts.models import Alert
from benchapp.catalog.models import Target
from tests.alerts.pages import made

pytestmark = pytest.mark.django_db


def test_what_another_gpu_says_decides_nothing():
    change = made.moved()
    said = made.compared(made.alert(change), change)
    assert [each for _, each in tried_of([change.series_id], [said])] == [said]
    said.target = Target.objects.create(key="gpu:elsewhere", kind="gpu", arch="sm90", model="NVIDIA H200")
    assert tried_of([change.series_id], [said]) == []
    assert said.verdict == Alert.Verdict.SLOW
