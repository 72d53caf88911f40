"""Servers, secrets, people, and alerts that messages are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from benchapp.alerts.models import Alert, Channel, Delivery, Route
from benchapp.alerts.notifiers.base import Message
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.models import Case, Configuration, Host, Series, Stack, Target
from benchapp.people.models import Role, User
from tests.alerts.notifiers.servers import Hook, http_server
from tests.deployment import tls

HOOK_SECRET = "0123456789abcdef-of-the-hook"
SLACK_PATH = "/services/T0001/B0002/very-secret-part"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWATCH_NOTIFY_HOOK", HOOK_SECRET)
    monkeypatch.setenv("TILEWATCH_NOTIFY_SMTP", "the-mail-password")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tls.Authority:
    tls.need_openssl()
    return tls.Authority(tmp_path_factory.mktemp("notifiers"), "ours").make()


@pytest.fixture(scope="session")
def pem(authority: tls.Authority) -> Path:
    return authority.sign("localhost")


@pytest.fixture
def trusted(authority: tls.Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))


@pytest.fixture
def hook() -> Iterator[Hook]:
    with http_server() as server:
        yield server


@pytest.fixture
def private(settings: Any) -> None:
    """This installation lists loopback."""
    settings.PRIVATE_WEBHOOKS = "127.0.0.0/8, ::1, localhost"


@pytest.fixture
def message() -> Message:
    return Message(
        key="tilewatch.thread1.7", thread="tilewatch.thread1", purpose="opened", title="mm_fp4 is slower",
        sentence="12 series moved with flashinfer 0.6.9.", facts=(("Before → after", "10 µs → 12 µs"),),
        path="/alerts/7/", link="https://bench.example.org/alerts/7/", alert={"id": 7},
    )  # fmt: skip


@pytest.fixture
def stacks(db: None) -> tuple[Stack, Stack]:
    old = {"flashinfer": "0.6.3", "torch": "2.11.0"}
    return (
        Stack.objects.create(digest="a", components=old),
        Stack.objects.create(digest="b", components={**old, "flashinfer": "0.6.9"}),
    )


MakeAlert = Callable[..., Alert]


@pytest.fixture
def make_alert(stacks: tuple[Stack, Stack]) -> MakeAlert:
    """`make_alert("key", certain=False)`: a new alert of versions on an H200."""
    host = Host.objects.create(name="boxb")
    target = Target.objects.create(key="gpu:1", kind="gpu", arch="sm90", model="NVIDIA H200", host=host)

    def make(key: str = "mm_fp4", **fields: Any) -> Alert:
        said = {
            "kind": Alert.Kind.STACK, "title": f"{key} is slower", "sentence": "One series moved.",
            "ratio": 1.2, "host": host, "target": target, "stack_before": stacks[0], "stack_after": stacks[1],
            **fields,
        }  # fmt: skip
        # nothing here can be confirmed, so that what is certain is told at once
        with transaction.atomic():
            alert, opened = open_or_join(Proposal(key=key, **said))
            if opened:
                Alert.objects.filter(pk=alert.pk).update(confirm=Alert.Confirm.CANNOT)
        return alert

    return make


@pytest.fixture
def series(make_alert: MakeAlert) -> Series:
    case = Case.objects.create(
        digest="c", kind="moe", params={"model": "glm-5"}, label="decode glm-5, batch 16"
    )
    return Series.objects.create(
        case=case,
        target=Target.objects.get(),
        configuration=Configuration.objects.create(digest="d"),
        backend="flashinfer.cutlass",
        metric="time",
    )


MakeChannel = Callable[..., Channel]


@pytest.fixture
def make_channel(db: None) -> MakeChannel:
    """`make_channel("hooks", hook)`: a signed webhook's channel that gets every alert."""

    def make(name: str, server: Hook | None = None, kind: str = "webhook", **config: Any) -> Channel:
        url = f"http://127.0.0.1:{server.port if server else 9}/hook"
        channel = Channel.objects.create(
            name=name, kind=kind, config=config or {"url": url, "secret_variable": "TILEWATCH_NOTIFY_HOOK"}
        )
        Route.objects.create(channel=channel)
        return channel

    return make


@pytest.fixture
def sign_in(db: None) -> Callable[[Role], Client]:
    def sign(role: Role) -> Client:
        client = Client()
        client.force_login(User.objects.create_user(str(role), role=role))
        return client

    return sign


def states(channel: Channel) -> list[tuple[str, str]]:
    return list(Delivery.objects.filter(channel=channel).order_by("pk").values_list("purpose", "state"))


def stored() -> str:
    """Every word of the tables that notifiers write, for secrets to be looked for in."""
    words = []
    with connection.cursor() as cursor:
        for table in ("alerts_channel", "alerts_delivery", "alerts_route", "people_auditentry"):
            cursor.execute(f"SELECT coalesce(string_agg(t::text, '\n'), '') FROM {table} t")  # noqa: S608
            words.append(cursor.fetchone()[0])
    return "\n".join(words)
