"""What people do with alerts: legal moves, history, audit, signals, and who was faster."""

from __future__ import annotations

import datetime as dt
import threading
import time

import pytest
from django.db import connection, transaction
from django.utils import timezone

from benchapp.alerts import triage
from benchapp.alerts.life import CLOSED, MOVES
from benchapp.alerts.models import Alert, Entry, Watch
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.alerts.signals import alert_closed, alert_updated
from benchapp.people.models import AuditEntry
from tests.alerts.pages import made

pytestmark = pytest.mark.django_db
State = Alert.State


@pytest.fixture
def heard():
    """Signals as they come: "closed", or the sentence of an update."""
    told = []

    def closed(alert, **kwargs):
        told.append("closed")

    def updated(what, **kwargs):
        told.append(what)

    alert_closed.connect(closed)
    alert_updated.connect(updated)
    yield told
    alert_closed.disconnect(closed)
    alert_updated.disconnect(updated)


def into(alert, state):
    closed_at = timezone.now() if state in CLOSED else None
    Alert.objects.filter(pk=alert.pk).update(state=state, closed_at=closed_at)


def move(alert, ann, to):
    if to in CLOSED:
        return triage.close(alert.pk, ann, to, "because")
    acts = {
        State.NEW: triage.reopen, State.ACKNOWLEDGED: triage.acknowledge,
        State.INVESTIGATING: triage.investigate,
    }  # fmt: skip
    return acts[to](alert.pk, ann)


@pytest.mark.parametrize("origin", State)
def test_every_move_is_legal_or_changes_nothing(ann, origin):
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    for to in State:
        into(alert, origin)
        if to in MOVES[origin]:
            assert move(alert, ann, to).state == to
            assert Alert.objects.get(pk=alert.pk).state == to
        else:
            with pytest.raises(triage.Meanwhile, match="nothing was changed"):
                move(alert, ann, to)
            assert Alert.objects.get(pk=alert.pk).state == origin


def test_closing_leaves_history_audit_and_a_signal_and_ends_its_sleep(ann, heard):
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    triage.snooze(alert.pk, ann, component="torch", version="2.12.0")
    del heard[:]
    triage.close(alert.pk, ann, State.FIXED, "fixed by #12")
    stored = Alert.objects.get(pk=alert.pk)
    assert stored.closed_at is not None and stored.snoozed_version == ""
    last = stored.entries.last()
    assert (last.actor, last.user, last.action, last.sentence) == (
        "ann", ann, "state", "Closed as fixed: fixed by #12",
    )  # fmt: skip
    audited = AuditEntry.objects.get(action="alert_state")
    assert audited.user == ann and audited.detail == {
        "origin": "new", "to": "fixed", "reason": "fixed by #12",
    }  # fmt: skip
    assert heard == ["closed"]


def test_whoever_comes_too_late_is_told_who_was_faster(ann):
    bob = made.person("bob")
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    triage.close(alert.pk, bob, State.INVALID, "noise")
    with pytest.raises(triage.Meanwhile, match=f"Alert {alert.pk} is invalid since bob said so"):
        triage.close(alert.pk, ann, State.FIXED, "mine")
    assert Alert.objects.get(pk=alert.pk).state == State.INVALID
    triage.note(alert.pk, ann, "what I had to say")
    assert alert.entries.last().sentence == "what I had to say"


def test_a_closed_one_is_not_opened_beside_an_open_one_of_its_key(ann):
    first = made.alert(key="thing", kind=Alert.Kind.COVERAGE)
    triage.close(first.pk, ann, State.FIXED, "done")
    second = made.alert(key="thing", kind=Alert.Kind.COVERAGE)
    assert second.pk != first.pk
    with pytest.raises(triage.Meanwhile, match=f"Alert {second.pk} about the same thing is open"):
        triage.reopen(first.pk, ann)
    triage.close(second.pk, ann, State.FIXED, "done")
    assert triage.reopen(first.pk, ann).closed_at is None


def test_only_active_people_are_given_alerts(ann, heard):
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    gone = made.person("gone", is_active=False)
    with pytest.raises(ValueError, match="gone is no longer active"):
        triage.assign(alert.pk, ann, gone)
    triage.assign(alert.pk, ann, ann)
    triage.assign(alert.pk, ann, ann)
    assert heard == ["Assigned to ann"]
    triage.assign(alert.pk, ann, None)
    assert Alert.objects.get(pk=alert.pk).assignee is None


def test_a_new_baseline_is_set_in_every_series_and_closes_the_alert(ann):
    changes = [made.moved(m) for m in (16, 64)]
    alert = made.alert(*changes)
    triage.known_from_here(alert.pk, ann, "the new driver")
    watches = Watch.objects.filter(series__in=[each.series_id for each in changes])
    assert {watch.known_from for watch in watches} == {made.AT}
    assert all(watch.due_at is not None for watch in watches)
    stored = Alert.objects.get(pk=alert.pk)
    assert stored.state == State.WONT_FIX
    assert (
        "known from here on (2 series have a new baseline): the new driver" in stored.entries.last().sentence
    )
    known = watches.first().known_from
    triage.reopen(alert.pk, ann)
    triage.close(alert.pk, ann, State.FIXED, "x")
    with pytest.raises(triage.Meanwhile):
        triage.known_from_here(alert.pk, ann, "")
    assert watches.first().known_from == known


def test_settings_of_a_series_are_kept_audited_and_looked_at_anew(ann):
    change = made.moved()
    alert = made.alert(change)
    wanted = {"least_effect": 0.05, "set_spread": None, "minimum_history": 20, "muted": True}
    Watch.objects.update_or_create(series=change.series, defaults={"due_at": None})
    triage.set_watch(change.series_id, ann, wanted, alert.pk)
    watch = Watch.objects.get(series=change.series)
    assert (watch.least_effect, watch.minimum_history, watch.muted) == (0.05, 20, True)
    assert watch.due_at is not None
    assert AuditEntry.objects.get(action="watch_set").detail == {
        "least_effect": 0.05, "minimum_history": 20, "muted": True,
    }  # fmt: skip
    assert "least effect 0.05, minimum history 20, muted yes" in alert.entries.last().sentence
    triage.set_watch(change.series_id, ann, wanted, alert.pk)
    assert AuditEntry.objects.filter(action="watch_set").count() == 1


def test_one_that_cannot_be_done_holds_up_no_other(ann):
    first, second = made.alert(kind=Alert.Kind.COVERAGE), made.alert(kind=Alert.Kind.DRIFT)
    triage.close(first.pk, ann, State.FIXED, "done")
    none = second.pk + 1
    outcomes = triage.each([second.pk, none, first.pk, second.pk], lambda pk: triage.acknowledge(pk, ann))
    assert [each.alert_id for each in outcomes] == [first.pk, second.pk, none]
    late, done, missing = (each.fault for each in outcomes)
    assert "nothing was changed" in late and done == "" and missing == f"There is no alert {none}."
    assert Alert.objects.get(pk=second.pk).state == State.ACKNOWLEDGED


@pytest.mark.django_db(transaction=True)
def test_of_two_who_close_at_once_one_does():
    ann, bob = made.person("ann"), made.person("bob")
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    together, said = threading.Barrier(2), []

    def close(user, state):
        try:
            together.wait(10)
            triage.close(alert.pk, user, state, "mine")
            said.append("closed")
        except triage.Meanwhile as late:
            said.append(str(late))
        finally:
            connection.close()

    threads = [
        threading.Thread(target=close, args=args) for args in ((ann, State.FIXED), (bob, State.INVALID))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(each == "closed" for each in said) == [False, True]
    winner = Entry.objects.get(alert=alert, action="state").actor
    assert any(f"since {winner} said so" in each for each in said)


def test_snoozing_and_waking_are_told(ann, heard):
    alert = made.alert(kind=Alert.Kind.COVERAGE)
    until = timezone.now() + dt.timedelta(days=2)
    triage.snooze(alert.pk, ann, until=until)
    triage.snooze(alert.pk, ann)
    assert heard == [f"Snoozed until {until:%Y-%m-%d %H:%M} UTC", "Awake again"]
    triage.close(alert.pk, ann, State.FIXED, "x")
    with pytest.raises(triage.Meanwhile):
        triage.snooze(alert.pk, ann, until=until)


@pytest.mark.django_db(transaction=True)
def test_what_is_found_while_somebody_closes_opens_another(ann):
    alert = made.alert(key="moved")
    opened = []

    def find() -> None:
        try:
            opened.append(open_or_join(Proposal("moved", Alert.Kind.STACK, "More", "More of the same.")))
        finally:
            connection.close()

    found = threading.Thread(target=find)
    with transaction.atomic():
        triage.close(alert.pk, ann, State.FIXED, "fixed in 2.11.1")
        found.start()
        for _ in range(1000):
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
                if cursor.fetchone()[0]:
                    break
            time.sleep(0.01)
    found.join(30)
    [(other, new)] = opened
    assert new and other.pk != alert.pk
    alert.refresh_from_db()
    assert (alert.state, alert.title) == ("fixed", "A stack alert")
