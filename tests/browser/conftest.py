"""A real Chromium against the live server; one console error or blocked resource fails the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

# Playwright's sync API runs an event loop in this thread, beside which Django refuses the ORM otherwise.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

OpenPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        reason = f"no Chromium at {CHROMIUM}; on Debian: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


class Watch:
    """What a browser context complained about, and what it asked of other servers."""

    def __init__(self, context: BrowserContext, own: str) -> None:
        self.faults: list[str] = []
        self._own = own
        context.on("console", lambda message: self._console(message.type, message.text))
        context.on("weberror", lambda error: self.faults.append(f"script error: {error.error}"))
        context.on("request", lambda request: self._request(request.url))

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"console {kind}: {text}")

    def _request(self, url: str) -> None:
        if urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc != self._own:
            self.faults.append(f"asked another server: {url}")

    @contextmanager
    def expecting(self, *words: str) -> Iterator[None]:
        """Within the block, faults that hold one of the `words` are meant."""
        before = len(self.faults)
        yield
        self.faults[before:] = [
            fault for fault in self.faults[before:] if not any(word in fault for word in words)
        ]


@pytest.fixture
def open_page(browser: Browser, live_server) -> Iterator[OpenPage]:
    """`open_page("/runs/", viewport=PHONE, color_scheme="dark")`: a page with a context of its own.

    The page has `watch`, see Watch; what it found by the end fails the test.
    """
    opened: list[tuple[BrowserContext, Watch]] = []

    def open_(path: str, **options) -> Page:
        context = browser.new_context(**{"viewport": DESKTOP, "base_url": live_server.url, **options})
        context.set_default_timeout(10_000)
        context.set_default_navigation_timeout(30_000)  # the first page of all, on a busy machine
        watch = Watch(context, urlsplit(live_server.url).netloc)
        opened.append((context, watch))
        page = context.new_page()
        page.watch = watch  # type: ignore[attr-defined]
        page.goto(path)
        return page

    yield open_
    for context, _ in opened:
        context.close()
    assert [fault for _, watch in opened for fault in watch.faults] == []


def overflow(page: Page) -> int:
    """How many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
