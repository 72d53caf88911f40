"""Asking for work in a browser: the plan follows what is chosen, and the address with it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from benchapp.catalog.models import Release
from benchapp.people.models import Role, User
from benchapp.runs.models import Job, Run
from tests.browser.conftest import PHONE, OpenPage
from tests.fleet.machines import host

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "a-long-password-of-olga"


@pytest.fixture
def fleet() -> None:
    host("boxa", "aaaaaaaa", "GPU-a0-1111-2222-3333", "GPU-a1-1111-2222-3333")
    Release.objects.bulk_create(
        Release(package="flashinfer", version=f"0.{minor}.{patch}") for minor in (5, 6) for patch in range(6)
    )


def signed_in(open_page: OpenPage, path: str, **options) -> Page:
    User.objects.create_user("olga", password=PASSWORD, role=Role.OPERATOR)
    page = open_page(f"/login/?next={path}", **options)
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{path}")
    return page


def test_the_plan_and_the_address_follow_the_form_by_keyboard_and_one_press_asks(open_page, fleet):
    page = signed_in(open_page, "/trigger/")
    expect(page.locator(".plan-headline")).to_contain_text("1 run.")
    page.locator("#version-0\\.6\\.4").press("Space")
    expect(page.locator(".plan-headline")).to_contain_text("2 runs.")
    expect(page.locator("#version-0\\.6\\.4")).to_be_focused()
    assert page.url.endswith("/trigger/?what=survey&version=newest&version=0.6.4&target=arch:sm120")
    page.get_by_label("SM90").check()
    expect(page.locator(".plan-headline")).to_contain_text("4 runs.")
    page.reload()
    expect(page.locator(".plan-headline")).to_contain_text("4 runs.")
    page.get_by_role("button", name="Ask for these 4 runs").dblclick()
    page.wait_for_url("**/runs/?job=*")
    assert (Job.objects.count(), Run.objects.count()) == (1, 4)


def test_another_kind_of_work_offers_its_own_and_names_what_is_wrong(open_page, fleet):
    page = open_page("/trigger/")
    page.get_by_label("GEMM benchmark").check()
    page.get_by_label("GPU 1 of boxa").check()
    expect(page.get_by_label("Beside another program on the GPU")).to_be_visible()
    page.get_by_label("any host's CPUs").uncheck()
    expect(page.locator(".plan tbody tr")).to_have_count(1)
    page.get_by_label("own cases").check()
    expect(page.get_by_text("There is no plan yet")).to_be_visible()
    page.locator("#own-cases").fill("16x4096x7168:bf16 1x")
    page.locator("#own-cases").blur()
    expect(page.get_by_role("alert")).to_contain_text("'1x'")
    page.locator("#own-cases").fill("16x4096x7168:bf16")
    page.locator("#own-cases").blur()
    expect(page.locator(".plan tbody")).to_contain_text("GPU 1 of boxa")
    assert "case=16x4096x7168:bf16" in page.url
    page.get_by_label("FlashInfer", exact=True).check()
    expect(page.locator("#version-0\\.6\\.5")).to_be_checked()
    expect(page.locator(".plan tbody")).to_contain_text("flashinfer 0.6.5")
    expect(page.get_by_label("any host's CPUs")).to_have_count(0)
    assert "library=flashinfer" in page.url and "case=16x4096x7168:bf16" in page.url


@pytest.mark.parametrize("options", [{}, {"viewport": PHONE, "color_scheme": "dark"}])
def test_without_scripts_the_form_shows_the_plan_by_its_button(open_page, fleet, options):
    page = open_page("/trigger/", java_script_enabled=False, **options)
    page.locator("#version-0\\.6\\.4").check()
    page.get_by_role("button", name="Show the plan").click()
    assert "2 runs." in page.locator(".plan-headline").inner_text()
