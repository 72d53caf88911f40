"""The matrix by keyboard, evidence beside it, and its size."""

from __future__ import annotations

import pytest

from benchapp.catalog.models import Release
from benchapp.tiles.models import Tile, Verdict
from tests.browser.conftest import DESKTOP, PHONE, overflow
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def surveyed():
    for version, day in (("0.6.3", 1), ("0.6.4", 2)):
        store(survey(version, "4.2.1", findings_of(IN_0_6_3), day=day))


def test_the_page_opens_on_the_cell_that_tells_most(open_page, surveyed):
    page = open_page("/tiles/")
    assert "14 of 16 variants fit; two miss by 1,024 B" in page.locator(".lede").inner_text()
    page.locator("#evidence", has_text="over by 1,024").wait_for()
    current = page.locator("#matrix [aria-current]")
    assert current.count() == 1 and "short by 1,024 B" in current.get_attribute("title")


def test_arrows_move_and_enter_opens_the_evidence_beside(open_page, surveyed):
    page = open_page("/tiles/")
    assert page.locator("#matrix .cell[tabindex='0']").count() == 1
    page.locator("#matrix [aria-current]").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    focused = page.evaluate("document.activeElement.title")
    assert focused.startswith("128×256×128 none · swap in 0.6.3")
    page.keyboard.press("Enter")
    page.locator("#evidence h2", has_text="128×256×128 none · swap").wait_for()
    told = page.locator("#evidence-announced", has_text="128×256×128 none · swap in 0.6.3")
    told.wait_for(state="attached")
    assert "cell=" in page.url and "0.6.3" in page.url
    page.reload()
    assert "128×256×128 none · swap" in page.locator("#evidence h2").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#evidence").is_visible()
    page.reload()
    assert not page.locator("#evidence").is_visible()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_cutlass_of_a_single_version_is_read_whole(open_page, viewport):
    for day, (version, cutlass) in enumerate(
        (("0.6.3", "4.2.1"), ("0.6.4", "4.4.10"), ("0.6.5", "4.4.10")), 1
    ):
        store(survey(version, cutlass, findings_of(IN_0_6_3), day=day))
    page = open_page("/tiles/", viewport=viewport)
    for band in page.locator("#matrix .band").all():
        assert band.inner_text() in ("4.2.1", "4.4.10")
        cell, label = band.bounding_box(), band.locator("span").bounding_box()
        assert cell["x"] <= label["x"] and label["x"] + label["width"] <= cell["x"] + cell["width"]
        assert cell["y"] <= label["y"] and label["y"] + label["height"] <= cell["y"] + cell["height"]


def test_a_sibling_opens_in_the_same_place(open_page, surveyed):
    page = open_page("/tiles/")
    page.locator("#evidence a[data-evidence]", has_text="finalize · swap").click()
    page.locator("#evidence h2", has_text="finalize · swap").wait_for()
    assert "74,752" in page.locator("#evidence .budget-head").inner_text()


def test_the_grid_by_keyboard_down_to_one_variant(open_page, surveyed):
    page = open_page("/tiles/?version=0.6.3")
    page.locator(".views a", has_text="M × N grid").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**view=grid**")
    page.locator("#evidence h2", has_text="128×256×128").wait_for()
    assert "3 of 4 fit" in page.locator("#evidence").inner_text()
    page.locator("#matrix [aria-current]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.title").startswith("256×128×128 in 0.6.3: 3 of 4")
    page.keyboard.press("Enter")
    page.locator("#evidence h2", has_text="256×128×128").wait_for()
    assert "cell=256x128x128%400.6.3" in page.url
    page.locator("#evidence a[data-evidence]", has_text="finalize · swap").click()
    page.locator("#evidence h2", has_text="finalize · swap").wait_for()
    assert page.locator("#matrix [aria-current]").get_attribute("title").startswith("256×128×128")
    page.reload()
    page.locator("#evidence h2", has_text="finalize · swap").wait_for()


def test_switches_are_radio_groups_and_stand_in_the_address(open_page, surveyed):
    page = open_page("/tiles/?view=grid&version=0.6.3")
    page.locator("input[name=fusion]:checked").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**fusion=finalize**")
    assert "view=grid" in page.url and "version=0.6.3" in page.url
    assert "with fusion finalize, 6 of 8 variants fit" in page.locator(".lede").inner_text()
    page.locator(".views a", has_text="Funnel").click()
    page.wait_for_url("**view=funnel**")
    page.locator(".views a", has_text="Versions").click()
    page.wait_for_url(lambda url: "view=" not in url)
    assert page.locator("#matrix tbody tr").count() == 8


def test_without_script_a_cell_is_a_link_to_its_evidence(open_page, surveyed):
    page = open_page("/tiles/", java_script_enabled=False)
    page.locator("#matrix a.cell").first.click()
    assert page.url.split("?")[0].endswith("/0.6.3/")
    assert "needed" in page.locator(".budget-head").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_page_without_sideways_scrolling(open_page, surveyed, scheme):
    page = open_page("/tiles/", viewport=PHONE, color_scheme=scheme)
    assert overflow(page) <= 0
    page.locator("#matrix a.cell").first.click()
    page.wait_for_url("**/tiles/*/0.6.3/")
    assert overflow(page) <= 0
    page.goto("/tiles/?view=grid")
    assert overflow(page) <= 0
    page.goto("/tiles/?view=funnel")
    assert overflow(page) <= 0


def test_sixty_variants_by_all_versions_fit_a_desktop_with_the_evidence_open(open_page):
    tiles = [(m, n, k) for m in (64, 128, 256) for n in (32, 64, 128, 256, 512) for k in (128,)]
    rows = [(tile, f, s, 3, 98_304) for tile in tiles for f in ("none", "finalize") for s in (False, True)]
    store(survey("0.0.18.post1", "4.0.0", findings_of(rows)))
    known = list(Verdict.objects.all())
    for number in range(1, 43):
        release = Release.objects.create(
            package="flashinfer", version=f"0.{number}.18.post1", cutlass=f"4.{number // 8}.0"
        )
        for verdict in known:
            verdict.pk, verdict.release = None, release
        Verdict.objects.bulk_create(known)
    page = open_page("/tiles/")
    assert page.locator("#matrix tbody tr").count() == 60
    assert page.locator("#matrix .cell").count() == 2580
    assert overflow(page) <= 0
    box = page.locator("#matrix").bounding_box()
    card = page.locator("section.card").first.bounding_box()
    assert box["x"] + box["width"] <= card["x"] + card["width"]
    page.mouse.wheel(0, 900)
    page.wait_for_timeout(200)
    head = page.locator("#matrix th.col").last.bounding_box()
    assert 48 <= head["y"] < 120
    assert Tile.objects.count() == 60
