"""Which messages an alert gives rise to: one when it is told, and later only what a person needs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading

import pytest
from django.db import connections
from django.test import TestCase
from django.utils import timezone

from benchapp.alerts import deliveries, sending
from benchapp.alerts.closing import resolve
from benchapp.alerts.models import Alert, Change, Delivery, Entry, Route
from benchapp.alerts.opening import note
from benchapp.alerts.routing import Traits, channels_of, is_told, meets, traits
from benchapp.alerts.signals import alert_closed, alert_opened, alert_updated
from tests.alerts.notifiers.conftest import states

pytestmark = pytest.mark.django_db


def send_all():
    """Take every queued message as sent, as a notifier that never fails would."""
    for row in sending.claim():
        sending.succeeded(row, "")


def test_an_alert_is_told_once_when_it_opens(make_alert, make_channel, django_capture_on_commit_callbacks):
    channel = make_channel("hooks")
    with django_capture_on_commit_callbacks(execute=True):
        alert = make_alert()
    assert states(channel) == [("opened", "queued")]
    for _ in range(3):
        deliveries.decide(alert.pk)
    send_all()
    deliveries.decide(alert.pk)
    assert states(channel) == [("opened", "sent")]


LATER = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, True),
        ({"certain": False}, False),
        ({"certain": False, "verdict": "SLOW"}, True),
        ({"certain": False, "verdict": "FAST"}, True),
        ({"certain": False, "verdict": "AMBG"}, False),
        ({"recorded": True}, False),
        ({"snoozed_until": timezone.now() + LATER}, False),
        ({"snoozed_until": timezone.now() - LATER}, True),
        ({"snoozed_component": "flashinfer", "snoozed_version": "0.7.0"}, False),
        ({"state": "acknowledged"}, True),
        ({"state": "invalid", "closed_at": timezone.now()}, False),
        # what a run can decide waits for it, and an A/B that could not decide leaves it a question
        ({"confirm": ""}, False),
        ({"confirm": "asked"}, False),
        ({"confirm": "asked", "opened_at": timezone.now() - LATER}, True),
        ({"confirm": "asked", "kind": "correctness"}, True),
        ({"confirm": "done", "verdict": "AMBG"}, False),
        ({"confirm": "done", "verdict": "SAME", "state": "acknowledged"}, False),
    ],
)
def test_what_is_told(make_alert, fields, told):
    alert = make_alert()
    Alert.objects.filter(pk=alert.pk).update(**fields)
    assert is_told(alert) is told


def test_what_no_run_has_decided_in_a_day_is_told_without(make_alert, make_channel):
    channel, alert = make_channel("hooks"), make_alert()
    Alert.objects.filter(pk=alert.pk).update(confirm="asked")
    deliveries.decide(alert.pk)
    assert states(channel) == []
    alert.entries.update(at=timezone.now() - LATER)
    Alert.objects.filter(pk=alert.pk).update(opened_at=timezone.now() - LATER - dt.timedelta(minutes=1))
    deliveries.catch_up()
    assert states(channel) == [("opened", "queued")]


def test_an_uncertain_alert_is_told_when_its_ab_decides(make_alert, make_channel):
    channel = make_channel("hooks")
    alert = make_alert(certain=False)
    deliveries.decide(alert.pk)
    assert states(channel) == []
    Alert.objects.filter(pk=alert.pk).update(verdict="SLOW")
    deliveries.decide(alert.pk)
    assert states(channel) == [("opened", "queued")]


def test_updates_tell_what_a_person_needs_and_nothing_else(make_alert, make_channel):
    hooks, chat = make_channel("hooks"), make_channel("chat", kind="slack", url_variable="TILEWATCH_NOTIFY_X")
    alert = make_alert()
    deliveries.decide(alert.pk)
    send_all()
    note(alert, "joined", "Another series moved.")
    alert.sentence = "Two series moved."
    alert.save()
    deliveries.decide(alert.pk)
    assert states(hooks) == states(chat) == [("opened", "sent")]
    alert.verdict = "SLOW"
    alert.save()
    note(alert, "confirm", "The A/B says SLOW.")
    deliveries.decide(alert.pk)
    deliveries.decide(alert.pk)
    assert states(hooks) == [("opened", "sent"), ("updated", "queued")]
    assert states(chat) == [("opened", "sent")]
    send_all()
    deliveries.decide(alert.pk)
    update = hooks.deliveries.get(purpose="updated")
    assert update.message["sentence"] == "The A/B says SLOW."
    assert update.thread == hooks.deliveries.get(purpose="opened").thread
    assert len(states(hooks)) == 2


def test_what_waits_untried_tells_the_newest_when_it_is_sent(make_alert, make_channel):
    channel = make_channel("hooks")
    alert = make_alert()
    deliveries.decide(alert.pk)
    alert.verdict = "SLOW"
    alert.save()
    deliveries.decide(alert.pk)
    send_all()
    deliveries.decide(alert.pk)
    assert states(channel) == [("opened", "sent")]
    assert channel.deliveries.get().message["about"]["verdict"] == "SLOW"


def test_closing_is_told_once_to_whom_opening_was(
    make_alert, make_channel, django_capture_on_commit_callbacks
):
    channel = make_channel("hooks")
    alert = make_alert()
    deliveries.decide(alert.pk)
    send_all()
    make_channel("later")
    with django_capture_on_commit_callbacks(execute=True):
        resolve(alert.key, "It is fast again with 0.6.13.")
    deliveries.decide(alert.pk)
    assert list(Delivery.objects.values_list("channel__name", "purpose")) == [
        ("hooks", "closed"), ("hooks", "opened"),
    ]  # fmt: skip
    send_all()
    closed = channel.deliveries.get(purpose="closed")
    assert closed.message["sentence"] == "Closed as fixed: It is fast again with 0.6.13."


def test_what_nobody_was_told_nobody_is_told_is_closed(make_alert, make_channel):
    channel = make_channel("hooks")
    alert = make_alert()
    deliveries.decide(alert.pk)
    resolve(alert.key, "Not confirmed.", Alert.State.INVALID)
    deliveries.decide(alert.pk)
    assert states(channel) == []


def test_opened_again_is_told_even_where_updates_are_not(make_alert, make_channel):
    chat = make_channel("chat", kind="slack", url_variable="TILEWATCH_NOTIFY_X")
    alert = make_alert()
    deliveries.decide(alert.pk)
    send_all()
    resolve(alert.key, "Fixed.")
    deliveries.decide(alert.pk)
    send_all()
    Alert.objects.filter(pk=alert.pk).update(state="new", closed_at=None)
    deliveries.decide(alert.pk)
    deliveries.decide(alert.pk)
    assert [purpose for purpose, _ in states(chat)] == ["opened", "closed", "updated"]


def test_a_storm_is_told_as_one_digest(make_alert, make_channel, monkeypatch):
    monkeypatch.setattr(deliveries, "STORM", 3)
    channel = make_channel("hooks")
    alerts = [make_alert(f"case {i}", ratio=1 + i / 10) for i in range(1, 9)]
    for alert in alerts:
        deliveries.decide(alert.pk)
    assert channel.deliveries.filter(next_at=None, state="queued").count() == 5
    resolve(alerts[-1].key, "It was nothing.")
    deliveries.decide(alerts[-1].pk)
    channel.deliveries.filter(purpose="digest").update(next_at=timezone.now())
    for _ in range(6):
        send_all()
    digest = channel.deliveries.get(purpose="digest")
    assert digest.message["title"] == "4 more alerts: see the inbox"
    assert digest.message["facts"][0] == ["Alert", "case 7 is slower"]
    assert states(channel).count(("opened", "sent")) == 7
    for alert in alerts:
        deliveries.decide(alert.pk)
    assert not channel.deliveries.filter(state="queued").exists()


def test_a_digest_of_nothing_is_not_sent(make_alert, make_channel, monkeypatch):
    monkeypatch.setattr(deliveries, "STORM", 0)
    channel = make_channel("hooks")
    alert = make_alert()
    deliveries.decide(alert.pk)
    resolve(alert.key, "It was nothing.")
    deliveries.decide(alert.pk)
    channel.deliveries.update(next_at=timezone.now())
    assert sending.claim() == [] and states(channel) == []


def test_whatever_was_missed_is_caught_up_with(make_alert, make_channel):
    """As when a process dies between its commit and what follows it."""
    channel = make_channel("hooks")
    old, new = make_alert("old"), make_alert("new")
    Entry.objects.filter(alert=old).update(at=timezone.now() - dt.timedelta(hours=1))
    deliveries.catch_up()
    assert [row.alert for row in channel.deliveries.all()] == [new]


def test_an_alert_that_stumbles_keeps_no_other_from_being_told(make_alert, make_channel, monkeypatch, caplog):
    channel = make_channel("hooks")
    odd, other = make_alert("odd"), make_alert("other")
    real = deliveries.decide

    def decide(alert_id: int) -> None:
        if alert_id == odd.pk:
            raise ValueError("odd")
        real(alert_id)

    monkeypatch.setattr(deliveries, "decide", decide)
    deliveries.catch_up()
    assert [row.alert for row in channel.deliveries.all()] == [other]
    assert f"alert {odd.pk} is not told" in caplog.text


@pytest.mark.parametrize("signal", [alert_opened, alert_updated, alert_closed])
def test_a_fault_of_telling_undoes_no_detection(make_alert, monkeypatch, signal, caplog):
    """It runs after the commit, and its error ends in the log."""

    def stumble(alert_id: int) -> None:
        raise RuntimeError("no words")

    alert = make_alert()
    monkeypatch.setattr("benchapp.alerts.notify_receivers.decide", stumble)
    with TestCase.captureOnCommitCallbacks(execute=True):
        signal.send(sender=Alert, alert=alert, what="x")
    assert "no words" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_two_that_decide_at_once_make_one_message(make_alert, make_channel):
    channel = make_channel("hooks")
    alert = make_alert()
    Delivery.objects.all().delete()
    start = threading.Barrier(4)

    def decide() -> None:
        start.wait()
        deliveries.decide(alert.pk)
        connections.close_all()

    threads = [threading.Thread(target=decide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(channel) == [("opened", "queued")]


HAS = Traits("stack", frozenset({"NVIDIA H200"}), frozenset({"glm-5"}), None, worse=True, cost=0.2)


@pytest.mark.parametrize(
    ("fields", "gets"),
    [
        ({}, True),
        ({"kinds": ["stack", "build"]}, True),
        ({"kinds": ["machine"]}, False),
        ({"gpu_models": ["NVIDIA H200"]}, True),
        ({"gpu_models": ["NVIDIA B200"]}, False),
        ({"moe_models": ["glm-5"]}, True),
        ({"moe_models": ["qwen3-30b"]}, False),
        ({"least_cost": 0.2}, True),
        ({"least_cost": 0.3}, False),
        ({"owner_id": 7}, False),
        ({"kinds": ["stack"], "gpu_models": ["NVIDIA B200"]}, False),
    ],
)
def test_a_route_wants_all_that_it_sets(fields, gets):
    assert meets(Route(**fields), HAS) is gets


def test_what_routes_ask_of_an_alert_comes_from_its_changes_too(make_alert, series):
    alert = make_alert(target=None)
    now = timezone.now()
    Change.objects.create(
        series=series, alert=alert, at=now, before_at=now, stack_before=alert.stack_before,
        stack_after=alert.stack_after, before=1e-5, after=1.2e-5, ratio=1.2, low=1.1, high=1.3, confidence=1,
        certain=True, worse=True, n_before=9, n_after=3,
    )  # fmt: skip
    assert traits(alert) == dataclasses.replace(HAS, cost=alert.cost)


def test_routes_of_an_owner_and_of_improvements(make_alert, make_channel, django_user_model):
    ann = django_user_model.objects.create_user("ann")
    channel = make_channel("ann's")
    channel.routes.update(owner=ann)
    alert = make_alert(worse=False)
    assert channels_of(alert) == []
    alert.assignee = ann
    assert channels_of(alert) == []
    Route.objects.create(channel=channel, owner=ann, improvements=True)
    assert channels_of(alert) == [channel]
    channel.enabled = False
    channel.save()
    assert channels_of(alert) == []
