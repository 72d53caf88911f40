"""The frame of every page in a real browser: policy, themes, keyboard, narrow screens, polling."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from benchapp.people.models import Role, User
from benchapp.runs import work
from benchapp.runs.models import Run, State
from tests.browser.conftest import DESKTOP, PHONE, overflow
from tests.runs_pages.work import failed_survey, gemm_done, running_survey
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey

pytestmark = pytest.mark.django_db(transaction=True)

GROUND = "getComputedStyle(document.body).backgroundColor"
PAPER = {"light": "rgb(251, 251, 249)", "dark": "rgb(18, 20, 22)"}


@pytest.fixture
def populated(live_server):
    gemm_done()
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    failed_survey()
    return running_survey()


def test_a_phone_shows_state_and_job_of_a_run_without_sideways_scrolling(open_page, populated):
    page = open_page("/runs/", viewport=PHONE)
    job = page.locator("tbody tr").first.locator("td").nth(1).bounding_box()
    assert job["x"] + job["width"] <= PHONE["width"] - 16


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_no_page_complains_or_overflows(open_page, populated, viewport, theme):
    options = {"color_scheme": theme} | ({"viewport": viewport} if viewport else {})
    page = open_page("/", **options)
    runs = [f"/runs/{pk}/" for pk in Run.objects.values_list("pk", flat=True)]
    for path in ["/", "/runs/", "/runs/?state=failed", "/runs/?state=nonsense", *runs, "/login/"]:
        page.goto(path)
        assert overflow(page) <= 0, path
        assert page.evaluate(GROUND) == PAPER[theme]
        assert page.locator("h1").count() == 1


def test_an_empty_installation_has_an_overview(open_page):
    page = open_page("/", viewport=PHONE)
    expect(page.locator("#lede")).to_contain_text("No data yet")
    assert overflow(page) <= 0


def test_the_chosen_theme_is_there_before_the_first_paint_and_stays(open_page):
    page = open_page("/", color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(GROUND) == PAPER["dark"]
    # No deferred script has run at the time the body begins: the attribute is there by then.
    page.add_init_script(
        "new MutationObserver((_, o) => { if (document.body) { o.disconnect();"
        " window.themeAtBody = document.documentElement.dataset.theme; } })"
        ".observe(document, {childList: true, subtree: true})"
    )
    page.goto("/runs/")
    assert page.evaluate("window.themeAtBody") == "dark"
    assert page.evaluate(GROUND) == PAPER["dark"]
    page.get_by_label("Theme").select_option("system")
    assert page.evaluate(GROUND) == PAPER["light"]
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(GROUND) == PAPER["dark"]


def test_the_first_tab_skips_to_the_content(open_page):
    page = open_page("/")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_everything_that_acts_can_be_reached_by_tab_and_shows_it(open_page, populated):
    page = open_page("/")
    wanted = page.locator("a[href]:visible, button:visible, select:visible").count()
    reached = set()
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "(() => { const e = document.activeElement;"
            " return [e.outerHTML, getComputedStyle(e).outlineStyle]; })()"
        )
        if name.startswith(("<a", "<button", "<select")):
            assert outline != "none", name
            reached.add(name)
    assert len(reached) >= wanted


def test_the_page_of_a_run_follows_it_to_its_end(open_page, live_server):
    run = running_survey()
    page = open_page(f"/runs/{run.pk}/")
    bar = page.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "14")
    work.beat(run.pk, 1, work.Progress(15, 40, "compiling group 3"), "group 2 <i>compiled</i>\n")
    expect(bar).to_have_attribute("value", "15")
    expect(page.locator(".log")).to_contain_text("group 2 <i>compiled</i>")
    work.fail(run.pk, 1, "compiler_crash", "nvcc crashed on group 3.")
    expect(page.locator("#progress")).to_contain_text("nvcc crashed on group 3.")
    expect(page.locator("#progress[hx-get]")).to_have_count(0)


def test_nothing_is_sent_or_drawn_again_while_nothing_changes(open_page, live_server):
    run = running_survey()
    page = open_page(f"/runs/{run.pk}/")
    page.evaluate("document.getElementById('progress').dataset.mine = 'kept'")
    with page.expect_response(re.compile("/progress$")) as answer:
        pass
    assert answer.value.status == 304
    page.wait_for_timeout(200)
    assert page.evaluate("document.getElementById('progress').dataset.mine") == "kept"


def test_the_overview_shows_what_ended_without_being_loaded_again(open_page, live_server):
    run = running_survey("9.9.9")
    page = open_page("/")
    expect(page.locator("#motion")).to_contain_text("14 of 40")
    work.fail(run.pk, 1, "no_such_version", "There is no FlashInfer 9.9.9.")
    expect(page.locator("#lede")).to_contain_text("1 thing needs a look")
    expect(page.locator("#findings")).to_contain_text("There is no FlashInfer 9.9.9.")
    expect(page.locator("#motion")).to_contain_text("Nothing is running or queued.")


def test_filters_live_in_the_address(open_page, populated):
    page = open_page("/runs/")
    page.get_by_label("State").select_option("failed")
    page.wait_for_url(re.compile(r"/runs/\?state=failed$"))
    expect(page.get_by_label("State")).to_have_value("failed")
    page.go_back()
    expect(page.get_by_label("State")).to_have_value("")
    expect(page.get_by_label("Kind")).to_be_enabled()


def test_an_operator_signs_in_and_cancels_a_run_by_keyboard(open_page, live_server):
    User.objects.create_user("olga", password="correct horse battery", role=Role.OPERATOR)
    run = running_survey()
    page = open_page(f"/runs/{run.pk}/")
    page.get_by_role("link", name="Sign in").press("Enter")
    page.locator("input[name=username]").fill("olga")
    page.locator("input[name=password]").fill("correct horse battery")
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url(f"**/runs/{run.pk}/")
    page.set_viewport_size(PHONE)
    assert overflow(page) <= 0
    page.set_viewport_size(DESKTOP)
    expect(page.locator(".top")).to_contain_text("Operator")
    page.get_by_role("button", name="Cancel run").press("Enter")
    expect(page.get_by_role("status").filter(has_text="is asked to stop")).to_be_visible()
    run.refresh_from_db()
    assert run.cancel_requested_at is not None and run.state == State.RUNNING


def test_a_server_that_goes_away_is_said_and_taken_back(open_page, live_server):
    run = running_survey()
    page = open_page(f"/runs/{run.pk}/")
    note = page.locator("#unreachable")
    with page.watch.expecting("ERR_FAILED", "htmx:"):
        page.route("**/progress", lambda route: route.abort())
        expect(note).to_be_visible()
        page.unroute("**/progress")
    expect(note).to_be_hidden()
