"""Charts of servers under load and of collectives in a browser."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE, overflow
from tests.moe.loads import EIGHT, GANG, VLLM, exchange, load, store

pytestmark = pytest.mark.django_db(transaction=True)
DRAWN = "() => [...document.querySelectorAll('canvas')].every((canvas) => Chart.getChart(canvas))"


def test_loads_and_messages_are_drawn_on_a_phone_without_sideways_scrolling(open_page):
    lost = load(64, completed=0, errors={"cut": 64}, outcome="crashed", error="Every stream was cut.")
    store("serving", load(1), load(16, tpot=0.02), lost, target=EIGHT, stack=VLLM)
    store("moe", exchange(1, 12e-6), exchange(64, 16e-6), target=GANG, stack={"torch": "2.11.0"})
    page = open_page("/moe/serving/", viewport=PHONE, color_scheme="dark")
    page.wait_for_function(DRAWN)
    assert page.locator("canvas").count() == 2 and overflow(page) <= 0
    page.locator("select[name=rate]").select_option("all")
    page.wait_for_url("**/moe/serving/?rate=all")
    page.get_by_role("link", name="Collectives").first.click()
    page.wait_for_function(DRAWN)
    assert page.locator("canvas").count() == 1 and overflow(page) <= 0
