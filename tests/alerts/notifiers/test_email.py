"""E-mail against a real SMTP server."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.notifiers.base import Failure, Message
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.email.form import EmailSettings
from benchapp.alerts.notifiers.email.render import mail
from benchapp.alerts.notifiers.registry import notifier
from tests.alerts.notifiers.servers import Mailbox, smtp_server

pytestmark = pytest.mark.usefixtures("secrets", "private")
TO = ["gpu-alerts@example.org", "ann@example.org"]


def config(box, **fields):
    return {
        "host": "localhost", "port": box.port, "security": "none", "sender": "tilewatch@example.org",
        "recipients": TO, "user": "", "password_variable": "", **fields,
    }  # fmt: skip


LOGIN = {"user": "tilewatch", "password_variable": "TILEWATCH_NOTIFY_SMTP", "security": "starttls"}


def send(box, message, seconds=5.0, **fields):
    return notifier("email").send(config(box, **fields), message, Deadline(seconds))


def refused(box, message, seconds=5.0, **fields) -> Failure:
    with pytest.raises(Failure) as failure:
        send(box, message, seconds, **fields)
    assert "the-mail-password" not in failure.value.sentence
    return failure.value


def test_a_letter_says_what_happened_in_text_and_html(message):
    with smtp_server() as box:
        assert send(box, dataclasses.replace(message, title="a < b & c")) == ""
    letter = box.letters[0]
    assert box.recipients == [TO]
    assert letter["Subject"] == "a < b & c"
    assert letter["From"] == "Tilewatch <tilewatch@example.org>"
    assert letter["Auto-Submitted"] == "auto-generated"
    text = letter.get_body(("plain",)).get_content()
    for words in (message.sentence, "Before → after: 10 µs → 12 µs", message.link):
        assert words in text
    html = letter.get_body(("html",)).get_content()
    assert "a &lt; b &amp; c" in html and f'href="{message.link}"' in html


def test_messages_of_an_alert_are_one_thread(message):
    later = dataclasses.replace(message, key="tilewatch.thread1.9", purpose="closed")
    with smtp_server() as box:
        for each in (message, message, later):
            send(box, each)
    first, again, closed = box.letters
    assert first["Message-ID"] == again["Message-ID"] == "<tilewatch.thread1@example.org>"
    assert closed["In-Reply-To"] == closed["References"] == first["Message-ID"]
    assert closed["Message-ID"] == "<tilewatch.thread1.9@example.org>"
    assert closed["Subject"] == f"Re: {first['Subject']}"


def test_starttls_and_login(pem, trusted, message):
    with smtp_server(pem, login=("tilewatch", "the-mail-password")) as box:
        assert send(box, message, **LOGIN) == ""
    assert box.logins == [(b"tilewatch", b"the-mail-password")]
    assert len(box.letters) == 1


def test_a_wrong_password_is_final(pem, trusted, message, monkeypatch):
    monkeypatch.setenv("TILEWATCH_NOTIFY_SMTP", "wrong-password")
    with smtp_server(pem, login=("tilewatch", "the-mail-password")) as box:
        failure = refused(box, message, **LOGIN)
    assert failure.permanent and failure.sentence.startswith("localhost answered 535")
    assert "wrong-password" not in failure.sentence


def test_a_certificate_of_somebody_is_not_accepted(pem, message):
    with smtp_server(pem, login=("tilewatch", "the-mail-password")) as box:
        assert "certificate that is not accepted" in refused(box, message, **LOGIN).sentence
    assert not box.logins


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
def test_a_server_without_starttls_is_told_nothing(message):
    with smtp_server(login=("tilewatch", "the-mail-password")) as box:
        failure = refused(box, message, **LOGIN)
    assert "STARTTLS" in failure.sentence and not box.logins and not box.letters


def test_a_private_relay_must_be_listed(message, settings):
    settings.PRIVATE_WEBHOOKS = ""
    with smtp_server() as box:
        failure = refused(box, message, security="starttls")
        assert failure.permanent and "no public address" in failure.sentence
        settings.PRIVATE_WEBHOOKS = f"localhost:{box.port}"
        assert send(box, message) == ""


def test_some_recipients_refused_is_a_remark_and_all_a_failure(message):
    with smtp_server() as box:
        box.refuse = {TO[1]: "550 no such person"}
        remark = send(box, message)
        assert remark == "localhost refused 1 recipient: ann@example.org (550 no such person)"
        box.refuse = dict.fromkeys(TO, "450 later")
        failure = refused(box, message)
        assert not failure.permanent and "2 recipients" in failure.sentence
    assert box.recipients == [TO[:1]]


@pytest.mark.parametrize(
    ("answer", "permanent"), [("451 busy", False), ("552 too much", True), ("554 spam", True)]
)
def test_refusals_of_a_letter_are_final_or_not(message, answer, permanent):
    with smtp_server() as box:
        box.answers = [answer]
        failure = refused(box, message)
    assert failure.permanent is permanent
    assert failure.sentence == f"localhost answered {answer[:3]}: {answer[4:]}"


def test_a_server_that_never_greets_is_left(message):
    with socket.create_server(("127.0.0.1", 0)) as silent:

        class Box:
            port = silent.getsockname()[1]

        failure = refused(Box, message, 0.3)
    assert failure.sentence == "localhost did not answer within 0.3 s."


@settings(max_examples=40)
@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_gets_into_a_header_of_its_own(title, sentence):
    told = Message("k", "t", "opened", title, sentence, ((title, sentence),), "/alerts/1/", "", {})
    box = type("Box", (), {"port": 1})
    letter = mail(config(box), told)
    head = letter.as_bytes().split(b"\r\n\r\n")[0]
    names = {line.split(b":")[0] for line in head.split(b"\r\n") if line[:1] not in (b" ", b"\t")}
    assert names <= {
        b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"X-Auto-Response-Suppress",
        b"MIME-Version", b"Content-Type",
    }  # fmt: skip


def test_a_title_with_line_breaks_is_one_subject(message):
    with smtp_server() as box:
        send(box, dataclasses.replace(message, title="slow\r\nBcc: everybody@example.org\r\n\r\nbody"))
    letter = box.letters[0]
    assert letter["Subject"] == "slow Bcc: everybody@example.org body" and letter["Bcc"] is None
    assert box.recipients == [TO]


FORM = {
    "host": "smtp.example.org", "port": "587", "security": "starttls", "sender": "tilewatch@example.org",
    "recipients": "ann@example.org, bob@example.org\nann@example.org",
}  # fmt: skip


def test_the_form_takes_addresses_apart():
    form = EmailSettings(FORM)
    assert form.is_valid() and form.config()["recipients"] == ["ann@example.org", "bob@example.org"]


@pytest.mark.parametrize(
    ("fields", "faulty"),
    [
        ({"sender": "a@example.org\r\nBcc: b@example.org"}, "sender"),
        ({"sender": "tilewatch"}, "sender"),
        ({"recipients": " , \n"}, "recipients"),
        ({"recipients": "ann@example.org, bob"}, "recipients"),
        ({"recipients": ",".join(f"p{i}@example.org" for i in range(21))}, "recipients"),
        ({"host": "10.0.0.25"}, "host"),
        ({"host": "metadata.google.internal"}, "host"),
        ({"host": "smtp example"}, "host"),
        ({"port": "0"}, "port"),
        ({"user": "tilewatch"}, "user"),
        ({"user": "u", "password_variable": "TILEWATCH_NOTIFY_X", "security": "none"}, "security"),
        ({"user": "u", "password_variable": "TILEWATCH_SECRET_KEY"}, "password_variable"),
        ({"user": "u", "password_variable": "hunter2 itself"}, "password_variable"),
    ],
)
def test_the_form_names_what_is_wrong(fields, faulty, settings):
    settings.PRIVATE_WEBHOOKS = ""
    form = EmailSettings({**FORM, **fields})
    assert not form.is_valid() and set(form.errors) == {faulty}
    assert "hunter2" not in str(form.errors)


def test_an_answer_without_end_is_not_read_to_its_end(message):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sent: list[int] = []

        def talk() -> None:
            peer, _ = listening.accept()
            with peer, contextlib.suppress(OSError):
                while sum(sent) < 64 * 1024 * 1024:
                    sent.append(peer.send(b"220-" + b"x" * 4000 + b"\r\n"))

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        box = Mailbox()
        box.port = listening.getsockname()[1]
        failure = refused(box, message)
        thread.join()
    assert "more than 262,144 bytes" in failure.sentence
    assert sum(sent) < 64 * 1024 * 1024
