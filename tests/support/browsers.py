"""The page of scaler_ui in a real browser: fixtures for the tests of its views."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import ServedPage
from tests.support.processes import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium: make tools installs it")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        # Root, as in containers, cannot have Chromium's sandbox.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=BROWSER, args=arguments, timeout=1000 * WAIT)
        yield browser
        browser.close()


@pytest.fixture
def served() -> Iterator[ServedPage]:
    with ServedPage() as served:
        yield served


@pytest.fixture
def page(browser: Browser, served: ServedPage) -> Iterator[Page]:
    """A tab of its own; what it complains of, or asks for elsewhere, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * WAIT)
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if not request.url.startswith(served.url) else None)
    page.goto(served.url)
    seen(page.get_by_role("status").first, "connecting")
    yield page
    context.close()
    assert not troubles


def seen(place: Locator, words: str) -> None:
    from playwright.sync_api import expect

    expect(place).to_contain_text(re.compile(re.escape(words)), timeout=1000 * WAIT)


def open_view(page: Page, view: str) -> None:
    page.locator(f"#tab-{view}").click()
