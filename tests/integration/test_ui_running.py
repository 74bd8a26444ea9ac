"""What runs now, and how long it takes, as a real browser shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler_protocol.messages import WorkerEntry
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import NASTY, ServedPage, status, task, worker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER


def running(one: WorkerEntry, number: int, seconds: float) -> WorkerEntry:
    processor = replace(one.status.processors[0], task_id=task(number), running_seconds=seconds)
    return replace(one, status=replace(one.status, processors=(processor,)))


def test_what_runs_now_over_all_workers(page: Page, served: ServedPage) -> None:
    """The longest first, with the functions of those whose names were asked for."""
    told = [running(worker(number), number, seconds) for number, seconds in ((1, 2.0), (2, 7200.0), (3, 0.5))]
    served.feed.model.running.names[task(2)] = NASTY
    served.tell(status(told))
    open_view(page, "running")
    rows = page.locator("#running-table tbody tr")
    seen(page.locator("#running-count"), "3 tasks")
    assert [rows.nth(number).locator("td").first.text_content() for number in range(3)] == ["2.0 h", "2.0 s", "500 ms"]
    seen(rows.first, NASTY)
    page.locator("#running-search").fill("onerror")
    seen(page.locator("#running-count"), "1 of 3 tasks")
    rows.first.get_by_role("button").click()
    seen(page.get_by_role("dialog"), "6120636c:2")
    assert page.evaluate("window.hacked") is None


def test_how_long_the_unfinished_tasks_take(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)], queued=10_000, done=0), at=1000.0)
    seen(page.locator("#facts"), "Unfinished tasks")
    assert "left" not in page.locator("#facts").inner_text(), "one status shows no rate"
    served.tell(status([worker(1)], sequence=2, queued=9_800, done=100), at=1010.0)
    seen(page.locator("#facts"), "about 23 min left")
    open_view(page, "work")
    seen(page.locator("#work-table tbody tr").first, "about 16 min")
