"""Webhooks against real HTTP servers: what they are sent, and what becomes of each answer."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import html
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.models import Channel
from benchapp.alerts.notifiers import http
from benchapp.alerts.notifiers.base import Failure, Message, said
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.registry import NOTIFIERS, notifier
from benchapp.alerts.notifiers.slack.render import MAX_TEXT, payload
from tests.alerts.notifiers.conftest import HOOK_SECRET, SLACK_PATH
from tests.alerts.notifiers.servers import Answer, http_server

pytestmark = pytest.mark.usefixtures("secrets", "private")


def config(hook, scheme="http", host="127.0.0.1"):
    return {
        "url": f"{scheme}://{host}:{hook.port}/hook?to=gpu",
        "secret_variable": "TILEWATCH_NOTIFY_HOOK",
    }


def send(hook, message, seconds=5.0, **options):
    return notifier("webhook").send(config(hook, **options), message, Deadline(seconds))


def refused(hook, message, seconds=5.0, **options) -> Failure:
    with pytest.raises(Failure) as failure:
        send(hook, message, seconds, **options)
    return failure.value


def test_a_receiver_can_check_who_sent_what_and_when(hook, message):
    assert send(hook, message) == ""
    asked = hook.asked[0]
    stamp = asked.headers["X-Tilewatch-Timestamp"]
    expected = hmac.new(HOOK_SECRET.encode(), f"{stamp}.".encode() + asked.body, hashlib.sha256).hexdigest()
    assert asked.headers["X-Tilewatch-Signature"] == f"v1={expected}"
    assert abs(int(stamp) - time.time()) < 60
    assert (asked.path, asked.headers["Host"]) == ("/hook?to=gpu", f"127.0.0.1:{hook.port}")
    assert asked.headers["Idempotency-Key"] == message.key
    told = json.loads(asked.body)
    assert (told["id"], told["event"], told["thread"]) == (message.key, "opened", message.thread)
    assert told["facts"] == dict(message.facts) and told["alert"] == {"id": 7}


def test_the_same_message_has_the_same_bytes_at_each_try(hook, message):
    send(hook, message)
    send(hook, message)
    assert hook.asked[0].body == hook.asked[1].body


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        (400, True),
        (401, True),
        (404, True),
        (410, True),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_refusals_are_final_or_not(hook, message, status, permanent):
    hook.answers = [Answer(status, body=b"no such\r\n\x1b[31m hook " + b"x" * 5000)]
    failure = refused(hook, message)
    assert failure.permanent is permanent
    assert failure.sentence.startswith(f"127.0.0.1 answered {status}: no such [31m hook xx")
    assert len(failure.sentence) < 260


def test_what_the_server_asks_to_wait_is_heard(hook, message):
    hook.answers = [Answer(429, {"Retry-After": "120"})]
    assert refused(hook, message).retry_after_s == 120
    for text in ("soon", "Mon, 01 Jan 2024 00:00:00 +999999999999999"):
        hook.answers = [Answer(503, {"Retry-After": text})]
        assert refused(hook, message).retry_after_s is None


@given(st.text(max_size=60))
def test_any_retry_after_is_read_or_passed_over(text):
    seconds = http.retry_after(text)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(hook, message, status):
    hook.answers = [Answer(status, {"Location": f"http://127.0.0.1:{hook.port}/elsewhere"})]
    failure = refused(hook, message)
    assert failure.permanent and "redirect" in failure.sentence
    assert len(hook.asked) == 1


def test_a_server_that_hangs_is_left(hook, message):
    hook.answers = [Answer(drip_s=30)]
    failure = refused(hook, message, 0.3)
    assert failure.sentence == "127.0.0.1 did not answer within 0.3 s." and not failure.permanent


def test_a_server_that_answers_byte_by_byte_gains_no_time(hook, message):
    """Each byte would start a socket's timeout anew: these alone would take 10 s."""
    hook.answers = [Answer(drip_s=0.01)]
    assert "did not answer within 0.3 s" in refused(hook, message, 0.3).sentence


def test_nobody_listens(hook, message):
    hook.port = 9  # discard, which nothing serves here
    failure = refused(hook, message)
    assert "127.0.0.1 takes no connection" in failure.sentence and not failure.permanent


def test_a_private_address_is_refused(hook, message, settings):
    settings.PRIVATE_WEBHOOKS = ""
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        failure = refused(hook, message, host=host)
        assert failure.permanent and "no public address" in failure.sentence
    assert not hook.asked


def test_tls_is_verified(authority, pem, trusted, message, monkeypatch):
    with http_server(pem) as hook:
        assert send(hook, message, scheme="https", host="localhost") == ""
        # the certificate is of localhost alone
        assert "certificate that is not accepted" in refused(hook, message, scheme="https").sentence
        monkeypatch.delenv("SSL_CERT_FILE")
        failure = refused(hook, message, scheme="https", host="localhost")
        assert "certificate that is not accepted" in failure.sentence
    assert len(hook.asked) == 1


@pytest.mark.parametrize("variable", ["TILEWATCH_SECRET_KEY", "DATABASE_URL", "TILEWATCH_NOTIFY_hook", ""])
def test_no_other_variable_is_ever_read(hook, message, variable, monkeypatch):
    monkeypatch.setenv(variable or "EMPTY", "something that must not leave")
    with pytest.raises(Failure, match="names no variable"):
        notifier("webhook").send({**config(hook), "secret_variable": variable}, message, Deadline(5))
    assert not hook.asked


def test_a_secret_that_is_missing_or_short_is_named(hook, message, monkeypatch):
    monkeypatch.delenv("TILEWATCH_NOTIFY_HOOK")
    failure = refused(hook, message)
    assert failure.sentence == "TILEWATCH_NOTIFY_HOOK is not set for the control worker."
    assert not failure.permanent
    monkeypatch.setenv("TILEWATCH_NOTIFY_HOOK", "short")
    assert "shorter than 16" in refused(hook, message).sentence


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "https:///path", "https://user:pw@example.org/", "https://example.org/#x",
        "https://example.org:0/", "https://exa mple.org/", "https://example.org/\r\nHost: evil", "//x", "",
        "https://example.org:99999/", "https://[::1", "https://éxample.org/",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused(url):
    with pytest.raises(Failure, match=r"expected https://|This is no address"):
        http.check_url(url)


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "[::1]", "2130706433", "0x7f.1"])
def test_a_form_refuses_early_what_will_be_refused(host, settings):
    settings.PRIVATE_WEBHOOKS = ""
    form = notifier("webhook").settings(
        {"url": f"https://{host}/hook", "secret_variable": "TILEWATCH_NOTIFY_HOOK"}
    )
    assert not form.is_valid() and set(form.errors) == {"url"}


# Slack


@pytest.fixture
def slack(hook, monkeypatch):
    monkeypatch.setenv("TILEWATCH_NOTIFY_SLACK", f"http://127.0.0.1:{hook.port}{SLACK_PATH}")
    return lambda message, seconds=5.0: notifier("slack").send(
        {"url_variable": "TILEWATCH_NOTIFY_SLACK"}, message, Deadline(seconds)
    )


def changed(message: Message, **fields) -> Message:
    return dataclasses.replace(message, **fields)


def test_slack_is_told_in_its_own_marks(hook, slack, message):
    slack(changed(message, title="<!channel> a & b\nis > slow"))
    asked = hook.asked[0]
    assert asked.path == SLACK_PATH
    text = json.loads(asked.body)["text"]
    assert text.splitlines() == [
        "*&lt;!channel&gt; a &amp; b is &gt; slow*",
        message.sentence,
        "• Before → after: 10 µs → 12 µs",
        "<https://bench.example.org/alerts/7/|Open it in Tilewatch>",
    ]


def test_without_an_address_of_its_own_slack_is_told_the_path(message):
    assert payload(changed(message, link=""))["text"].endswith("/alerts/7/ on your Tilewatch")


@settings(max_examples=15)
@given(st.text("&<>a b\n", min_size=MAX_TEXT - 40, max_size=MAX_TEXT + 800))
def test_a_long_text_is_cut_and_stays_escaped(text):
    sent = payload(
        Message("k", "t", "opened", "title", text, (), "/alerts/", "https://bench.example.org/", {})
    )["text"]
    assert len(sent) < MAX_TEXT + 100
    body = sent.rpartition("\n<https")[0]
    assert re.search(r"&(?!(amp|lt|gt);)", body) is None and "<" not in body
    assert html.unescape(body).startswith("*title*")


def test_no_part_of_slacks_url_is_told(hook, slack, message):
    hook.answers = [Answer(404, body=f"no route {SLACK_PATH} for you".encode())]
    with pytest.raises(Failure) as failure:
        slack(message)
    assert failure.value.permanent
    assert failure.value.sentence == "The webhook's server answered 404: no route … for you"
    hook.answers = [Answer(403, body=b"B0002 has no very-secret-part")]
    with pytest.raises(Failure) as failure:
        slack(message)
    assert failure.value.sentence == "The webhook's server answered 403: … has no …"


def test_a_certificate_of_somebody_else_does_not_name_slacks_host(pem, trusted, message, monkeypatch):
    with http_server(pem) as hook:
        monkeypatch.setenv("TILEWATCH_NOTIFY_SLACK", f"https://127.0.0.1:{hook.port}{SLACK_PATH}")
        with pytest.raises(Failure, match="certificate that is not accepted") as failure:
            notifier("slack").send({"url_variable": "TILEWATCH_NOTIFY_SLACK"}, message, Deadline(5))
    assert "127.0.0.1" not in failure.value.sentence


def test_a_hanging_slack_names_nothing_either(hook, slack, message):
    hook.answers = [Answer(drip_s=30)]
    with pytest.raises(Failure) as failure:
        slack(message, 0.2)
    assert failure.value.sentence == "The webhook's server did not answer within 0.2 s."


def test_a_slack_url_on_a_private_address_is_refused_without_naming_it(slack, message, settings):
    settings.PRIVATE_WEBHOOKS = ""
    with pytest.raises(Failure, match=r"^The webhook's server leads to") as failure:
        slack(message)
    assert "very-secret" not in failure.value.sentence


def test_a_variable_that_holds_no_url_is_not_repeated(message, monkeypatch):
    monkeypatch.setenv("TILEWATCH_NOTIFY_SLACK", "xoxb-token-not-a-url")
    with pytest.raises(Failure) as failure:
        notifier("slack").send({"url_variable": "TILEWATCH_NOTIFY_SLACK"}, message, Deadline(5))
    assert "xoxb" not in failure.value.sentence and failure.value.permanent


@given(st.text(max_size=400))
def test_what_a_server_says_is_one_printable_line(text):
    line = said(text + "secret-word" + text, "secret-word")
    assert line.isprintable() and len(line) <= 200 and "secret-word" not in line


def test_every_notifier_has_one_shape():
    assert set(NOTIFIERS) == set(Channel.Kind.values)
    for kind, each in NOTIFIERS.items():
        assert each.kind == kind
        assert [name for name in each.settings().fields if "variable" in name]
