"""Snoozed alerts wake when their time has come, or the version that they wait for was measured there."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from benchapp.alerts.confirm_tasks import confirm_alerts
from benchapp.alerts.models import Alert, Entry
from benchapp.alerts.snoozing import wake_snoozed
from tests.alerts.moved_alerts import moved
from tests.alerts.nights import gpu, night

pytestmark = pytest.mark.django_db


def asleep(**fields) -> Alert:
    alert = moved()
    Alert.objects.filter(pk=alert.pk).update(**fields)
    return alert


def wakes(alert: Alert) -> list[str]:
    wake_snoozed()
    found = Alert.objects.get(pk=alert.pk)
    awake = (found.snoozed_until, found.snoozed_component, found.snoozed_version) == (None, "", "")
    said = list(Entry.objects.filter(alert=alert, action="snooze").values_list("sentence", flat=True))
    assert awake == bool(said)
    return said


def test_it_sleeps_until_its_time_and_wakes_once():
    alert = asleep(snoozed_until=timezone.now() + dt.timedelta(hours=1))
    assert wakes(alert) == []
    Alert.objects.update(snoozed_until="2026-11-01T00:00:00Z", confirm="")
    confirm_alerts()
    assert Alert.objects.get(pk=alert.pk).confirm == "cannot", (
        "the same chore looks for what can be confirmed"
    )
    assert wakes(alert) == ["Awake again: it was snoozed until 2026-11-01 00:00 UTC."]
    assert wake_snoozed() == 0


def test_it_wakes_with_the_version_or_a_later_one_measured_there():
    alert = asleep(snoozed_component="flashinfer", snoozed_version="0.6.10")
    assert wakes(alert) == [], "0.6.9 comes before 0.6.10"
    night(2, {16: 1e-5}, flashinfer="0.6.12", target=gpu("b"))
    assert wakes(alert) == [], "another GPU"
    night(3, {16: 1e-5}, flashinfer="0.6.11")
    assert wakes(alert) == ["Awake again: flashinfer 0.6.11 was measured."]


def test_what_was_closed_meanwhile_does_not_wake():
    alert = asleep(snoozed_until="2026-11-01T00:00:00Z", state="fixed", closed_at="2026-11-02T00:00:00Z")
    assert wake_snoozed() == 0
    assert not Entry.objects.filter(alert=alert, action="snooze").exists()
