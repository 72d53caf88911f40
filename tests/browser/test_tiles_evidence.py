"""A tile's evidence in a browser: narrow beside the matrix, in two columns on its own, by keyboard, dark."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.tiles.models import Tile
from tests.browser.conftest import DESKTOP, PHONE, overflow
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey, variant

pytestmark = pytest.mark.django_db(transaction=True)

UNIT = "cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu"
NARROW = {"width": 1100, "height": 900}


@pytest.fixture
def address():
    """The tile that overflows in 0.6.3, with every kind of finding, a long version list and long names."""
    tile, fusion, swap = (128, 256, 128), "finalize", False
    *_, compiled, fits = variant(tile, fusion, swap, 3, 102_400)
    fits = dataclasses.replace(fits, predicted_stages=3, predicted_bytes=101_376, unit=UNIT)
    full = dataclasses.replace(
        compiled, tier="full", registers=168, threads=384, spill_store_bytes=3028, spill_load_bytes=2440,
        stack_bytes=3072, object_bytes=1_234_567, cpu_seconds=151.2,
    )  # fmt: skip
    refused = dataclasses.replace(
        compiled, source="imported", stage="initialised", passed=False, tier=None, log=None,
        reason="init_failed", detail="E" * 350,
    )  # fmt: skip
    for number in range(12):
        store(survey(f"0.6.3.post{number + 1}", "4.2.1", findings_of(IN_0_6_3[-4:]), day=1))
    store(survey("0.6.3", "4.2.1", [*findings_of(IN_0_6_3), fits, full, refused], day=2))
    pk = Tile.objects.get(m=128, n=256, fusion="finalize", swap_ab=False).pk
    return f"/tiles/{pk}/0.6.3/"


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_a_page_of_its_own_holds_everything_without_sideways_scrolling(open_page, address, viewport, scheme):
    page = open_page(address, viewport=viewport, color_scheme=scheme)
    assert overflow(page) <= 0
    parts = [part.bounding_box() for part in page.locator(".evidence-part").all()]
    beside = parts[1]["x"] > parts[0]["x"] + parts[0]["width"]
    assert beside is (viewport is DESKTOP)
    for table in page.locator(".evidence table").all():
        box, part = (
            table.bounding_box(),
            table.locator("xpath=ancestor::div[@class='evidence-part']").bounding_box(),
        )
        assert box["x"] + box["width"] <= part["x"] + part["width"] + 1
    assert "168 registers only repeat the launch bounds" in page.locator(".evidence").inner_text()


def test_the_panel_beside_the_matrix_stays_within_its_width(open_page, address):
    page = open_page(f"/tiles/?version=0.6.3&cell={address.split('/')[2]}@0.6.3", viewport=NARROW)
    page.locator("#evidence .ladder").wait_for()
    assert overflow(page) <= 0
    panel = page.locator("#evidence")
    assert panel.evaluate("panel => panel.scrollWidth - panel.clientWidth") <= 0
    assert page.locator("#evidence .tick").count() == 2  # three stages
    limit, predicted = (
        page.locator(f"#evidence .budget svg .{name}").first for name in ("limit", "predicted")
    )
    assert limit.evaluate("line => getComputedStyle(line).stroke") != "none"
    assert predicted.evaluate("line => getComputedStyle(line).strokeDasharray") != "none"


def test_neighbours_and_versions_open_in_the_panel_by_keyboard(open_page, address):
    page = open_page(f"/tiles/?version=0.6.3&cell={address.split('/')[2]}@0.6.3")
    page.locator("#evidence .ladder").wait_for()
    page.locator("#evidence .turns a[rel=next]").focus()
    page.keyboard.press("Enter")
    page.locator("#evidence header", has_text="0.6.3.post1").wait_for()
    page.locator("#evidence .siblings a", has_text="finalize · swap").focus()
    page.keyboard.press("Enter")
    page.locator("#evidence h2", has_text="finalize · swap").wait_for()
    assert "74,752" in page.locator("#evidence .budget-head").inner_text()


def test_tabbing_does_not_run_through_every_version(open_page, address):
    page = open_page(address)
    assert page.locator(".strip a").count() == 12
    assert page.locator(".strip a:not([tabindex='-1'])").count() == 0
    assert page.locator(".spans a, .turns a").count() >= 1
    folded = page.locator(".ladder details").first
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    assert folded.get_attribute("open") is not None


def test_a_screen_reader_meets_the_answer_before_the_evidence(open_page, address):
    page = open_page(address)
    said = page.locator("main").inner_text()
    order = [
        "does not fit",
        "102,400",
        "The predictor is wrong here",
        "spill stores",
        "The ladder",
        "Over versions",
    ]
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order)
    assert page.locator(".ladder > li").count() == 7
    assert "failed" in page.locator(".ladder > li.no").first.text_content()
    bar = page.get_by_role("img", name="102,400\u00a0B needed of 101,376\u00a0B")
    assert "101,376\u00a0B predicted" in bar.get_attribute("aria-label")
