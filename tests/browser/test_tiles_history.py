"""Charts and parts of the tile room over versions, drawn by the browser."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE, overflow
from tests.tiles.listed import FROM_0_6_8, NEVER_DISPATCHED, UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import store

pytestmark = pytest.mark.django_db(transaction=True)

CHART = "Chart.getChart(document.querySelector('canvas'))"


@pytest.fixture
def surveyed():
    sizes = {"units": 5, "instantiations": 40, "wheel_bytes": 7_000_000, "wheel_unpacked_bytes": 35_000_000}
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7, day=1, costs=sizes))
    store(listed_survey("0.6.8", "4.4.2", FROM_0_6_8, NEVER_DISPATCHED, day=2, costs=sizes))


def test_the_funnel_stacks_where_variants_ended(open_page, surveyed):
    page = open_page("/tiles/?view=funnel")
    page.wait_for_function(f"() => {CHART}")
    drawn = page.evaluate(f"{CHART}.data.datasets.map((d) => [d.label, d.data.map((p) => p.y)])")
    assert drawn == [
        ["● fits", [14, 14]],
        ["▲ does not fit", [2, 2]],
        ["○ candidate, never dispatched", [0, 8]],
    ]
    assert page.evaluate(f"{CHART}.scales.y.stacked ?? {CHART}.options.scales.y.stacked")
    newest = page.locator(".funnel-table tbody tr").first.inner_text()
    assert "0.6.8" in newest and newest.count("not tested") == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["?view=funnel", "diff/", "tactics/?id=15&tile=256x128x128&version=0.6.3", "sizes/", "untried/"]
)
def test_a_phone_shows_each_page_without_sideways_scrolling(open_page, surveyed, path, scheme):
    page = open_page(f"/tiles/{path}", viewport=PHONE, color_scheme=scheme)
    assert overflow(page) <= 0


def test_sizes_open_below_the_matrix_and_draw_themselves(open_page, surveyed):
    page = open_page("/tiles/")
    assert page.locator("canvas").count() == 0
    page.locator("summary", has_text="Sizes over versions").click()
    page.wait_for_function(f"() => document.querySelectorAll('canvas').length === 2 && {CHART}")
    assert page.locator(".later table tbody tr").first.inner_text().startswith("0.6.8")
    page.locator("summary", has_text="Worth trying").click()
    page.get_by_text("No tiles have been explored").wait_for()


def test_an_id_is_looked_up_from_the_keyboard(open_page, surveyed):
    page = open_page("/tiles/tactics/?version=0.6.3")
    page.locator("input[name=id]").fill("15")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tactics/?version=0.6.3&id=15")
    assert (
        "GEMM2 256×128×128 finalize"
        in page.locator("#about-id ~ *, section:has(#about-id)").first.inner_text()
    )
    assert page.locator("tr.asked th").inner_text() == "15"
