"""The page of a channel, on a phone: a test message is asked for, and its end appears by itself."""

from __future__ import annotations

import pytest
from django.test import Client
from playwright.sync_api import expect

from benchapp.alerts import sending
from benchapp.alerts.models import Channel, Delivery, Route
from benchapp.people.models import Role, User
from tests.browser.conftest import PHONE, overflow

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_test_message_is_followed_to_its_end(open_page, live_server, settings):
    settings.PRIVATE_WEBHOOKS = ""
    ann = User.objects.create_user("ann", role=Role.ADMIN)
    config = {"url": "https://127.0.0.1:9/hook", "secret_variable": "TILEWATCH_NOTIFY_ABSENT"}
    channel = Channel.objects.create(name="incident bot", kind="webhook", config=config, added_by=ann)
    Route.objects.create(channel=channel, kinds=["stack", "build"], gpu_models=["NVIDIA H200"])
    client = Client()
    client.force_login(ann)
    page = open_page("/login/", viewport=PHONE, color_scheme="dark")
    page.context.add_cookies(
        [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
    )
    page.goto("/alerts/channels/")
    assert overflow(page) == 0
    page.get_by_role("link", name="incident bot").click()
    page.get_by_role("button", name="Send a test message").click()
    expect(page.locator("#tested")).to_contain_text("on its way")
    sending.deliver()
    said = "TILEWATCH_NOTIFY_ABSENT is not set for the control worker."
    expect(page.locator("#tested")).to_contain_text(said)
    assert overflow(page) == 0
    assert Delivery.objects.get().state == "dead"
