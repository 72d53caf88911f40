"""The inbox and the page of an alert in a browser: keyboard, bulk, filters, forms, both themes, a phone."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client

from benchapp.alerts.models import Alert
from tests.alerts.pages import made
from tests.browser.conftest import DESKTOP, PHONE, overflow

pytestmark = pytest.mark.django_db(transaction=True)
Kind = Alert.Kind


@pytest.fixture
def inbox():
    """Three alerts, the costliest first: slower, coverage, better."""
    ann = made.person()
    slower = made.alert(made.moved(16), title="slower <b>", importance=9)
    made.alert(kind=Kind.COVERAGE, title="coverage")
    made.alert(kind=Kind.MACHINE, title="better", ratio=0.5, worse=False)
    return ann, slower


@pytest.fixture
def open_as(open_page, live_server):
    def open_(user, path, **options):
        client = Client()
        client.force_login(user)
        cookie = {
            "name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
            "domain": urlsplit(live_server.url).hostname, "path": "/", "expires": -1, "httpOnly": True,
            "secure": False, "sameSite": "Lax",
        }  # fmt: skip
        return open_page(path, storage_state={"cookies": [cookie], "origins": []}, **options)

    return open_


def states():
    return list(Alert.objects.order_by("pk").values_list("state", flat=True))


def at(page):
    return page.locator(".alert[aria-current] .title").inner_text()


def test_an_inbox_is_triaged_without_a_mouse(open_as, inbox):
    ann, slower = inbox
    page = open_as(ann, "/alerts/")
    page.keyboard.press("j")
    assert at(page) == "slower <b>"
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert at(page) == "coverage"
    page.keyboard.press("x")
    assert page.locator("#ticked").inner_text() == "With the 1 ticked:"
    page.keyboard.press("k")
    page.keyboard.press("x")
    page.keyboard.press("a")
    page.wait_for_selector(".messages >> text=2 alerts: acknowledge")
    assert states() == ["acknowledged", "acknowledged", "new"]
    # the reader stands where they stood; what is typed into the reason is no command
    assert at(page) == "slower <b>"
    page.keyboard.press("f")
    page.keyboard.type("jaxif fixed")
    page.keyboard.press("Enter")
    page.wait_for_selector(".messages >> text=close as fixed")
    assert states() == ["fixed", "acknowledged", "new"]
    assert Alert.objects.get(pk=slower.pk).entries.last().sentence == "Closed as fixed: jaxif fixed"
    page.keyboard.press("?")
    assert page.locator("#keys").get_attribute("open") is not None
    page.keyboard.press("e")
    page.wait_for_url(f"**/alerts/{slower.pk + 1}/")
    page.keyboard.press("n")
    page.keyboard.type("seen")
    assert page.locator("textarea[name=text]").input_value() == "seen"
    page.locator("h1").click()
    page.keyboard.press("i")
    page.wait_for_selector(".messages >> text=is being investigated")
    page.keyboard.press("m")
    assert page.locator("#close select").input_value() == "machine"
    page.keyboard.type("fan")
    page.keyboard.press("Enter")
    page.wait_for_selector(".messages >> text=closed as machine")
    assert states() == ["fixed", "machine", "new"]


def test_filters_stand_in_the_url_and_outlive_a_bulk_action(open_as, inbox):
    ann, _ = inbox
    page = open_as(ann, "/alerts/")
    page.locator("select[name=way]").select_option("worse")
    page.wait_for_url("**/alerts/?way=worse")
    assert page.locator(".alert").count() == 2
    for box in page.locator(".tick").all():
        box.check()
    page.locator("#bulk select[name=act]").select_option("assign")
    page.locator("#bulk select[name=assignee]").select_option("ann")
    page.locator("#bulk button").click()
    page.wait_for_selector(".messages >> text=2 alerts: assign to ann")
    assert page.url.endswith("/alerts/?way=worse")


def test_snoozing_and_a_chart_with_both_levels(open_as, inbox):
    ann, slower = inbox
    page = open_as(ann, f"/alerts/{slower.pk}/")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    drawn = page.evaluate(
        "Chart.getChart(document.querySelector('canvas')).data.datasets"
        ".map((d) => d.data.filter((p) => p.y !== null).length)"
    )
    assert drawn == [12, 6, 6]
    page.locator("#snooze summary").click()
    page.locator("#snooze input[name=until]").fill("2020-01-01T00:00")
    with page.watch.expecting("422"):
        page.locator("#snooze button").click()
        assert "This time has passed." in page.locator("#snooze .errorlist").inner_text()
    page.locator("#snooze input[name=until]").fill("2099-01-01T00:00")
    page.locator("#snooze button").click()
    page.wait_for_selector("main >> text=snoozed until 2099-01-01 00:00 UTC")


@pytest.mark.parametrize(("scheme", "viewport"), [("light", PHONE), ("dark", DESKTOP)])
def test_both_pages_fit_and_say_nothing_to_the_console(open_as, inbox, scheme, viewport):
    ann, slower = inbox
    page = open_as(ann, "/alerts/", viewport=viewport, color_scheme=scheme)
    assert page.locator("svg.sparkline").count() == 1 and overflow(page) <= 0
    page.goto(f"/alerts/{slower.pk}/")
    page.wait_for_function("() => Chart.getChart(document.querySelector('canvas'))")
    assert overflow(page) <= 0


def test_bulk_works_without_scripts(open_as, inbox):
    ann, _ = inbox
    page = open_as(ann, "/alerts/", java_script_enabled=False)
    page.locator(".tick").first.check()
    page.locator("#bulk select[name=act]").select_option("wont_fix")
    page.locator("#bulk input[name=reason]").fill("known")
    page.locator("#bulk button").click()
    assert "close as won't fix" in page.locator(".messages").inner_text()
    assert states() == ["wont_fix", "new", "new"]


def test_a_trend_leads_to_the_alerts_about_it(open_as, inbox):
    ann, slower = inbox
    page = open_as(ann, "/trends/")
    page.locator(f"main .notice a[href='/alerts/{slower.pk}/']").click()
    page.wait_for_url(f"**/alerts/{slower.pk}/")
