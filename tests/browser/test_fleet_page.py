"""The fleet page in a real browser: in motion, by keyboard, on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchapp.people.models import Role, User
from benchapp.runs import queues, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Maintenance, Run
from tests.browser.conftest import PHONE, overflow
from tests.fleet.reporting import gpu, report, take, uuid_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fleet(live_server) -> None:
    take(report("boxa", gpus=2), report("boxb", gpus=2), report("builder", gpus=0, nvml="no NVIDIA driver"))
    hot = gpu("boxb", 0, readings={"throttle": ["sw_power_cap"]}, configuration={"power_limit_w": 450.0})
    take(report("boxb", gpus=[hot], missing=[uuid_of("boxb", 1)]))


@pytest.fixture
def cookie(client, live_server) -> dict[str, str]:
    client.force_login(User.objects.create_user("olga", password="x" * 20, role=Role.OPERATOR))
    return {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}


def ask() -> Run:
    request = Request(Run.Kind.GEMM, "GEMM suite decode", queues.gpu_arch("sm120"), {"torch": "1"}, {})
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def test_the_page_follows_what_happens(open_page, fleet):
    page = open_page("/login/")
    page.clock.install()
    page.goto("/fleet/")
    expect(page.locator("#fleet-lede")).to_contain_text("3 hosts, 3 of 4 GPUs working: GPU 1 of boxb")
    run = ask()
    work.claim([run.queue], "gpu-boxa0000@boxa/boxa01")
    take(report("boxb", gpus=2))
    page.clock.run_for(10_000)
    expect(page.locator("#fleet-lede")).to_contain_text("4 of 4 GPUs working.")
    expect(page.locator("#fleet-lede")).to_contain_text("1 run under way.")
    expect(page.locator(".gpus tbody tr").first).to_contain_text(f"run {run.pk}")
    expect(page.locator("#running-title")).to_be_visible()


def test_a_gpu_is_drained_by_keyboard(open_page, fleet, cookie):
    page = open_page("/fleet/")
    page.context.add_cookies([cookie])
    page.goto("/fleet/")
    page.get_by_role("link", name="Drain GPU 0 of boxa").press("Enter")
    expect(page.get_by_label("GPU or host")).to_have_value(f"gpu:{uuid_of('boxa', 0)}")
    page.get_by_label("Reason").fill("a loud fan")
    page.keyboard.press("Enter")
    expect(page.get_by_text("GPU 0 of boxa is drained: what runs there goes on")).to_be_visible()
    expect(page.locator("#fleet-lede")).to_contain_text("GPU 0 of boxa takes no new runs.")
    assert Maintenance.objects.get().reason == "a loud fan"
    page.get_by_role("button", name="End drain of GPU 0 of boxa").press("Enter")
    expect(page.get_by_text("GPU 0 of boxa takes runs again.")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(open_page, fleet, cookie, theme):
    page = open_page("/fleet/", viewport=PHONE, color_scheme=theme)
    page.context.add_cookies([cookie])
    for path in ("/fleet/", "/fleet/?host=boxb", "/fleet/maintenance/", "/"):
        page.goto(path)
        assert overflow(page) <= 0, path
