"""Sending against real servers: tried again, given up, sent once, and never in anybody's way."""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading

import pytest
from django.db import connections
from django.utils import timezone

from benchapp.alerts import channel_actions, channel_queries, deliveries, messages, sending
from benchapp.alerts.models import Alert, Channel
from benchapp.alerts.notifiers.base import Failure
from benchapp.celery import app
from benchapp.people.models import Role, User
from tests.alerts.notifiers.conftest import HOOK_SECRET, SLACK_PATH, states, stored
from tests.alerts.notifiers.servers import Answer, http_server

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("secrets", "private")]


@pytest.fixture
def told(make_alert, make_channel, hook):
    """(its channel, an alert that waits to be told there)."""
    channel = make_channel("hooks", hook)
    alert = make_alert()
    deliveries.decide(alert.pk)
    return channel, alert


def due(channel):
    """As if all that is waited for had passed."""
    Channel.objects.filter(pk=channel.pk).update(wait_until=None)
    channel.deliveries.filter(state="queued").update(next_at=timezone.now())
    channel.refresh_from_db()


def test_a_message_arrives(told, hook):
    channel, _ = told
    assert sending.deliver() == 1
    assert states(channel) == [("opened", "sent")]
    assert len(hook.asked) == 1 and sending.deliver() == 0


def test_a_server_that_failed_once_is_asked_again_with_the_same_key(told, hook):
    channel, _ = told
    hook.answers = [Answer(500, body=b"out of order"), Answer()]
    sending.deliver()
    row = channel.deliveries.get()
    assert (row.state, row.attempts, row.error) == ("queued", 1, "127.0.0.1 answered 500: out of order")
    assert dt.timedelta(seconds=45) < row.next_at - timezone.now() < dt.timedelta(seconds=75)
    assert sending.deliver() == 0
    due(channel)
    sending.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts, row.error) == ("sent", 2, "")
    first, second = hook.asked
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_a_channel_rests_longer_after_each_failure_and_its_other_messages_with_it(told, hook, make_alert):
    channel, _ = told
    hook.answers = [Answer(503)]
    deliveries.decide(make_alert("another").pk)
    rests = []
    for _ in range(3):
        assert sending.deliver() == 1
        channel.refresh_from_db()
        rests.append(round((channel.wait_until - timezone.now()).total_seconds()))
        Channel.objects.filter(pk=channel.pk).update(wait_until=timezone.now())
        channel.deliveries.update(next_at=timezone.now())
    assert rests == pytest.approx([60, 120, 240], abs=3)
    hook.answers = [Answer()]
    due(channel)
    assert sending.deliver() == 2
    channel.refresh_from_db()
    assert (channel.failures, channel.wait_until) == (0, None)


def test_a_refusal_for_good_is_a_dead_letter_at_once_and_holds_up_no_other(told, hook, make_alert):
    channel, _ = told
    deliveries.decide(make_alert("another").pk)
    hook.answers = [Answer(400, body=b"bad"), Answer()]
    assert sending.deliver() == 2
    assert states(channel) == [("opened", "dead"), ("opened", "sent")]
    dead, count = channel_queries.dead_of(channel)
    assert count == 1 and dead[0].error == "127.0.0.1 answered 400: bad"


def test_too_many_failures_are_a_dead_letter_that_a_person_can_try_again(told, hook):
    channel, _ = told
    hook.answers = [Answer(500)]
    for _ in range(len(sending.BACK_OFF_S) + 1):
        assert states(channel) == [("opened", "queued")]
        due(channel)
        sending.deliver()
    assert states(channel) == [("opened", "dead")]
    hook.answers = [Answer()]
    assert channel_actions.try_again(channel, User.objects.create_user("ann", role=Role.OPERATOR)) == 1
    sending.deliver()
    assert states(channel) == [("opened", "sent")]


def test_back_off_grows_with_a_little_chance_and_heeds_retry_after_to_a_limit():
    for tries, usual in enumerate(sending.BACK_OFF_S, start=1):
        waits = {sending.back_off(tries) for _ in range(20)}
        assert usual * 0.8 <= min(waits) < max(waits) <= usual * 1.2
    assert sending.back_off(1, 1000) == 1000
    assert sending.back_off(1, 1e9) == sending.MAX_RETRY_AFTER_S


def test_retry_after_is_waited_for(told, hook):
    channel, _ = told
    hook.answers = [Answer(429, {"Retry-After": "900"})]
    sending.deliver()
    channel.refresh_from_db()
    for until in (channel.deliveries.get().next_at, channel.wait_until):
        assert dt.timedelta(seconds=890) < until - timezone.now() <= dt.timedelta(seconds=900)


def test_a_server_that_hangs_holds_up_no_other_channel(told, hook, make_channel, make_alert, monkeypatch):
    monkeypatch.setattr(sending, "ATTEMPT_S", 0.4)
    channel, _ = told
    hook.answers = [Answer(drip_s=30)]
    with http_server() as works:
        other = make_channel("works", works)
        for key in ("b", "c"):
            deliveries.decide(make_alert(key).pk)
        assert sending.deliver() == 3
    assert states(other) == [("opened", "sent")] * 2
    assert states(channel) == [("opened", "queued")] * 3
    assert [row.attempts for row in channel.deliveries.order_by("pk")] == [1, 0, 0]
    assert "did not answer within 0.4 s" in channel.deliveries.order_by("pk")[0].error


def test_a_look_up_that_hangs_is_given_up(told, monkeypatch):
    """Nothing ends a look-up, so its thread is left behind; it sends nothing when it wakes up late."""
    goes_on = threading.Event()
    real = socket.getaddrinfo

    def slow(*args, **options):
        goes_on.wait(10)
        return real(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(sending, "ATTEMPT_S", 0.1)
    monkeypatch.setattr(sending, "GRACE_S", 0.1)
    channel, _ = told
    sending.deliver()
    goes_on.set()
    row = channel.deliveries.get()
    assert (row.state, row.attempts) == ("queued", 1) and "could be looked up" in row.error


def test_an_update_does_not_overtake_the_opening(told, hook):
    channel, alert = told
    hook.answers = [Answer(500), Answer()]
    sending.deliver()
    alert.verdict = "SLOW"
    alert.save()
    deliveries.decide(alert.pk)
    assert states(channel) == [("opened", "queued"), ("updated", "queued")]
    Channel.objects.update(wait_until=None)
    assert sending.deliver() == 0  # the opening waits for its second try
    due(channel)
    assert sending.deliver() == 2
    assert [asked.headers["X-Tilewatch-Event"] for asked in hook.asked] == ["opened", "opened", "updated"]


def test_a_claim_whose_worker_died_is_taken_up_again(told, hook):
    channel, _ = told
    assert len(sending.claim()) == 1
    assert sending.claim() == []
    assert not hook.asked
    due(channel)
    assert sending.deliver() == 1
    assert channel.deliveries.get().attempts == 2


@pytest.mark.django_db(transaction=True)
def test_two_tasks_at_once_send_one_message_once(make_alert, make_channel, hook):
    channels = [make_channel(f"hooks {i}", hook) for i in range(3)]
    for key in ("a", "b", "c"):
        deliveries.decide(make_alert(key).pk)
    start = threading.Barrier(4)

    def deliver() -> None:
        start.wait()
        sending.deliver()
        connections.close_all()

    def claim_and_send() -> None:
        """Without the lock that lets one task work at a time: SKIP LOCKED alone has to do."""
        start.wait()
        while claimed := sending.claim():
            sending._send(claimed)
        connections.close_all()

    threads = [threading.Thread(target=each) for each in (deliver, deliver, claim_and_send, claim_and_send)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sending.deliver()
    assert [state for channel in channels for _, state in states(channel)] == ["sent"] * 9
    assert len({asked.headers["Idempotency-Key"] for asked in hook.asked}) == len(hook.asked) == 9


def test_an_alert_that_cannot_be_worded_holds_up_no_other(told, hook, make_alert, monkeypatch):
    channel, alert = told

    def compose(about, purpose):
        if about.pk == alert.pk:
            raise ValueError("odd")
        return messages.compose(about, purpose)

    monkeypatch.setattr(sending, "compose", compose)
    deliveries.decide(make_alert("another").pk)
    sending.deliver()
    sending.deliver()
    sending.deliver()
    assert states(channel) == [("opened", "dead"), ("opened", "sent")]
    assert "found no words for it: ValueError" in channel.deliveries.get(alert=alert).error


@pytest.mark.parametrize("field", ["ratio", "cost"])
def test_figures_beyond_all_bounds_hold_up_nothing(make_alert, make_channel, hook, field):
    channel = make_channel("hooks", hook)
    endless, usual = make_alert("endless"), make_alert("usual")
    Alert.objects.filter(pk=endless.pk).update(**{field: float("inf")})
    deliveries.decide(endless.pk)
    deliveries.decide(usual.pk)
    sending.deliver()
    assert states(channel) == [("opened", "sent")] * 2
    assert [json.loads(each.body)["alert"][field] for each in hook.asked] == [None, getattr(usual, field)]


def test_what_cannot_be_stored_is_a_dead_letter(told, hook, make_alert, monkeypatch):
    channel, alert = told
    other = make_alert("other")
    deliveries.decide(other.pk)
    composed = {alert.pk: {**messages.compose(alert, "opened"), "title": "\0"}}
    compose = messages.compose
    monkeypatch.setattr(sending, "compose", lambda of, why: composed.get(of.pk) or compose(of, why))
    sending.deliver()
    sending.deliver()
    assert states(channel) == [("opened", "dead"), ("opened", "sent")]


def test_a_fault_of_tilewatch_itself_is_told_without_its_words(told, monkeypatch, caplog):
    def stumble(kind, config, message):
        raise RuntimeError(f"password {HOOK_SECRET}")

    monkeypatch.setattr(sending, "_attempt", stumble)
    channel, _ = told
    sending.deliver()
    assert channel.deliveries.get().error == "Tilewatch itself stumbled: RuntimeError."
    assert HOOK_SECRET not in caplog.text + stored()


def test_no_secret_is_stored_or_logged(make_alert, make_channel, hook, monkeypatch, caplog):
    """Not even where servers say them back."""
    with http_server() as chat, caplog.at_level("DEBUG"):
        monkeypatch.setenv("TILEWATCH_NOTIFY_SLACK", f"http://127.0.0.1:{chat.port}{SLACK_PATH}")
        channels = [
            make_channel("hooks", hook),
            make_channel("chat", kind="slack", url_variable="TILEWATCH_NOTIFY_SLACK"),
        ]
        deliveries.decide(make_alert().pk)
        hook.answers = [Answer(400, body=f"{HOOK_SECRET} is unknown".encode())]
        chat.answers = [Answer(400, body=f"{SLACK_PATH} is unknown".encode())]
        assert sending.deliver() == 2
    assert [channel.deliveries.get().error for channel in channels] == [
        "127.0.0.1 answered 400: … is unknown",
        "The webhook's server answered 400: … is unknown",
    ]
    for secret in (HOOK_SECRET, SLACK_PATH, "very-secret"):
        assert secret not in stored() and secret not in caplog.text


def test_a_test_is_tried_once_even_while_the_channel_rests(told, hook):
    channel, _ = told
    hook.answers = [Answer(503, body=b"closed"), Answer(), Answer(503, body=b"closed")]
    sending.deliver()
    ann = User.objects.create_user("ann", role=Role.OPERATOR)
    channel_actions.test(channel, ann)
    assert sending.deliver() == 1
    assert channel_queries.newest_test(channel).state == "sent"
    channel.refresh_from_db()
    assert channel.failures == 0
    channel.deliveries.filter(purpose="opened").delete()
    channel_actions.test(channel, ann)
    sending.deliver()
    failed = channel_queries.newest_test(channel)
    assert (failed.state, failed.error) == ("dead", "127.0.0.1 answered 503: closed")
    assert channel_queries.dead_of(channel) == ([], 0)


def test_a_disabled_channel_drops_what_waits_and_says_so(told, hook):
    channel, alert = told
    admin = User.objects.create_user("admin", role=Role.ADMIN)
    assert channel_actions.switch(channel, admin, enabled=False)
    row = channel.deliveries.get()
    assert (row.state, row.error) == ("dead", "Not sent: the channel was disabled.")
    deliveries.decide(alert.pk)
    assert sending.deliver() == 0 and not hook.asked
    channel_actions.switch(channel, admin, enabled=True)
    channel_actions.try_again(channel, admin, row.pk)
    sending.deliver()
    assert states(channel) == [("opened", "sent")]


def test_forgetting_a_dead_letter_tells_nothing_anew(told, hook):
    channel, alert = told
    hook.answers = [Answer(400), Answer()]
    sending.deliver()
    assert channel_actions.forget(channel, User.objects.create_user("ann")) == 1
    assert channel_queries.dead_of(channel) == ([], 0)
    deliveries.decide(alert.pk)
    assert states(channel) == [("opened", "dead")] and len(hook.asked) == 1


def test_a_failure_tells_a_person_what_is_wrong():
    failure = Failure("It is away.", permanent=True)
    assert (str(failure), failure.permanent, failure.retry_after_s) == ("It is away.", True, None)


def test_the_task_is_known_to_the_control_worker():
    assert deliveries.TASK in app.tasks and deliveries.BEAT_TASK in app.tasks
    assert app.conf.beat_schedule["deliveries"]["task"] == deliveries.BEAT_TASK


def test_beat_tells_and_sends_what_was_missed(make_alert, make_channel, hook):
    channel = make_channel("hooks", hook)
    make_alert()
    app.tasks[deliveries.BEAT_TASK]()
    assert states(channel) == [("opened", "sent")]
