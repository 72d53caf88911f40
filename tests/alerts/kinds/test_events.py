"""Schedules without data and vanished survivors: events become alerts."""

from __future__ import annotations

import datetime as dt

import pytest

from benchapp.alerts.actions import raise_event
from benchapp.alerts.kinds import registry
from benchapp.alerts.models import Alert, Event
from benchapp.fleet import schedules
from benchapp.runs import actions
from benchapp.runs.models import Document, Run, State
from tests.alerts.kinds.stored import alerts, the, told
from tests.tiles.listed import UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import store

pytestmark = pytest.mark.django_db
ASK = {"what": "survey", "versions": ["0.6.3"], "targets": ["arch:sm120"]}


def fire(schedule, day):
    moment = dt.datetime(2026, 3, day, 3, tzinfo=dt.UTC)
    type(schedule).objects.filter(pk=schedule.pk).update(next_due=moment)
    assert schedules.tick(moment) == 1
    return schedule.firings.get(due_at=moment)


def ended(firing, *, data):
    run = Run.objects.get(job=firing.job)
    if data:
        row, _ = actions.receive(f"{run.pk}".encode(), origin=Document.Origin.WORKER, run=run)
        Document.objects.filter(pk=row.pk).update(state=Document.State.ACCEPTED)
    for state in (State.RUNNING, State.DELIVERED, State.DONE) if data else (State.FAILED,):
        Run.objects.filter(pk=run.pk).update(state=state, told=True)
    schedules.check_firings()


def test_a_schedule_without_data_is_one_alert_until_a_firing_yields_some():
    schedule = schedules.add({"name": "nightly", "ask": ASK, "cron": "0 3 * * *", "timezone": "UTC"}, None)
    for day in (1, 2):
        ended(fire(schedule, day), data=False)
    alert = the("schedule")
    assert alert.title == "Schedule nightly yields no data"
    assert alert.sentence.endswith("ended without an accepted document. That is the 2nd time in a row.")
    assert told(alert) == ["opened", "joined"] and alert.event.kind == "schedule_without_data"
    ended(fire(schedule, 3), data=True)
    alert.refresh_from_db()
    assert (alert.state, told(alert)[-1]) == (Alert.State.FIXED, "closed")
    assert "yielded data" in alert.entries.last().sentence
    ended(fire(schedule, 4), data=False)
    assert [each.state for each in alerts("schedule")] == [Alert.State.FIXED, Alert.State.NEW]


def test_nothing_is_waited_for_of_a_schedule_that_is_paused():
    schedule = schedules.add({"name": "nightly", "ask": ASK, "cron": "0 3 * * *", "timezone": "UTC"}, None)
    ended(fire(schedule, 1), data=False)
    schedules.pause(schedule, None)
    assert (the("schedule").state, told(the("schedule"))) == (Alert.State.WONT_FIX, ["opened", "closed"])
    schedules.resume(schedule, None)
    ended(fire(schedule, 2), data=False)
    assert [each.state for each in alerts("schedule")] == [Alert.State.WONT_FIX, Alert.State.NEW]


def test_survivors_that_vanish_are_an_alert_until_they_are_back():
    fewer = UNTIL_0_6_7[:3]
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7, day=1))
    store(listed_survey("0.6.4", "4.2.1", fewer, day=2))
    registry.look_at_new()
    alert = the("survivors")
    assert alert.title == "Survivors vanished: SM120 MoE grouped GEMM, 0.6.3 → 0.6.4"
    assert len(alert.evidence["survivors"]) == 3 and alert.event is not None
    store(listed_survey("0.6.5", "4.2.1", fewer, day=3))
    registry.look_at_new()
    assert the("survivors").state == Alert.State.NEW
    store(listed_survey("0.6.6", "4.2.1", UNTIL_0_6_7, day=4))
    registry.look_at_new()
    assert the("survivors").state == Alert.State.FIXED


def test_an_event_that_no_alert_can_be_made_of_still_stands():
    assert raise_event(
        "survivors_vanished", Event.Severity.WARNING, subject="?", sentence="?", dedupe_key="broken"
    )
    assert Event.objects.count() == 1 and not Alert.objects.exists()
