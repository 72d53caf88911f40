"""Two versions side by side, in a browser."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE, overflow
from tests.trends.compares import NEW, OLD, keep, timed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two_versions():
    keep(OLD, *(timed(m, 1e-3, host=8e-5) for m in (1, 16, 64)), timed(256, 1e-3))
    keep(NEW, timed(1, 2e-3, host=2e-4), timed(16, 0.5e-3), timed(64, 1e-3))


def test_a_keyboard_goes_through_classes_sides_and_copy(open_page, two_versions):
    page = open_page("/compare/")
    assert (
        "1 better, 1 worse, 1 same, 0 uncertain, 1 missing, 0 incorrect."
        in page.locator(".lede").inner_text()
    )
    assert page.locator(".pairs tbody tr").count() == 1
    page.get_by_role("link", name="better 1").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**show=better*")
    assert page.locator(".tab[aria-current]").inner_text().split() == ["↓", "better", "1"]
    page.get_by_role("link", name="Swap the two sides").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**b=flashinfer+{OLD}*")
    page.locator("input[name=m]").fill("16")
    page.keyboard.press("Enter")
    page.wait_for_url("**m=16*")
    assert f"a=flashinfer+{NEW}" in page.url  # the sides stay in the address, also where they are the default
    assert "1 worse" in page.locator(".lede").inner_text()
    page.get_by_role("button", name="Copy Markdown").click()
    page.wait_for_function("() => /Copied|Selected/.test(document.querySelector('[data-copy]').textContent)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_sideways_scrolling(open_page, two_versions, scheme):
    page = open_page("/compare/", viewport=PHONE, color_scheme=scheme)
    assert overflow(page) <= 0
