"""Views of scaler_ui in a real browser: where what is shown leads to, and what a lost connection does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scaler_protocol.messages import ClusterEvent, UserEntry
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import (
    NASTY,
    ServedPage,
    failed,
    failures,
    heard,
    printed,
    samples,
    status,
    task,
    with_objects,
    worker,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = NEEDS_BROWSER


def test_how_many_did_not_succeed_leads_to_the_errors(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)], done=100_000), failures(failed(1)))
    page.locator("#facts div").filter(has_text="Did not succeed").get_by_role("button", name="20").click()
    seen(page.locator("#errors"), "1 kind of error in 1 task")
    assert page.url.endswith("#/errors")


def test_the_task_log_says_why_a_task_failed(page: Page, served: ServedPage) -> None:
    served.tell(
        status([worker(0)]),
        samples([worker(0)], first=95, each=3),
        failures(replace(failed(96, line=NASTY), type_name="ValueError")),
    )
    open_view(page, "tasks")
    rows = page.locator("#task-table tbody tr")
    seen(rows.filter(has_text="6120636c:96"), f"ValueError: {NASTY}")
    assert rows.filter(has_text="ValueError").count() == 1
    page.locator("#task-table").get_by_role("button", name="Error").click()
    page.locator("#task-table").get_by_role("button", name="Error").click()
    seen(rows.first, "ValueError")
    page.locator("#task-search").fill("valueerror")
    seen(page.locator("#task-count"), "1 of the last 3 tasks")


def test_ids_in_output_answers_and_events_open_their_tasks(page: Page, served: ServedPage) -> None:
    box = page.get_by_role("dialog")
    events = [
        ClusterEvent(1, 9.0, "control", "6120636c:1", "canceled a task of ana"),
        ClusterEvent(2, 8.0, "control", "6120636c:70", "canceled a task of ana"),
        ClusterEvent(3, 7.0, "worker_joined", "6120636c:1", "6120636c:2"),
        ClusterEvent(4, 6.0, "worker_lost", "6120636c:1", "it held fit 6120636c:3, fit 6120636c:1, and 7 more", 9),
    ]
    served.tell(status([worker(0)]), samples([worker(0)]), printed("priced 17\n", 1), failures(events=events))
    open_view(page, "logs")
    page.locator("#log-lines").get_by_role("button", name="6120636c:1").click()
    seen(box, task(1).hex())
    page.keyboard.press("Escape")
    open_view(page, "events")
    assert page.locator("#event-table td button").count() == 4, "a worker may be called like a task"
    lost = page.locator("#event-table tbody tr").first
    seen(lost, "it held fit 6120636c:3, fit 6120636c:1, and 7 more")
    lost.get_by_role("button", name="6120636c:1").click()
    seen(box, task(1).hex())
    page.keyboard.press("Escape")
    page.locator("#event-table").get_by_role("button", name="6120636c:1").last.click()
    seen(box, task(1).hex())
    page.keyboard.press("Escape")
    page.locator("#event-table").get_by_role("button", name="6120636c:70").click()
    seen(page.locator("#waiting #explain-answer"), "no scheduler answers")
    answer = {"task": task(70).hex(), "function": "<b>fit</b>", "user": "", "state": "queued", "text": "it waits"}
    page.route("**/explain?task=*", lambda route: route.fulfill(json=answer))
    page.get_by_role("button", name="Ask", exact=True).click()
    seen(page.locator("#explain-answer"), "<b>fit</b> 6120636c:70: it waits")
    page.locator("#explain-answer").get_by_role("button", name="6120636c:70").click()
    seen(box, task(70).hex())
    page.keyboard.press("Escape")
    open_view(page, "events")
    page.locator("#event-table").get_by_role("button", name="6120636c:70").click()
    seen(box, task(70).hex())


def cells(page: Page, table: str) -> list[list[str]]:
    rows = page.locator(f"#{table} tbody tr")
    return [row.locator("td").all_text_contents() for row in rows.all()]


def test_objects_are_told_with_their_owners_and_hosts(page: Page, served: ServedPage) -> None:
    told = with_objects(status([worker(0)]))
    users = tuple(replace(one, user="ana") for one in told.clients)
    served.tell(replace(told, clients=users), at=1_000.0)
    open_view(page, "objects")
    owner = told.clients[0].peer_id.hex()[:8]
    value, named = (one.object_id.hex()[:8] for one in told.storage.largest)
    seen(page.locator("#object-table"), "table of prices")
    assert cells(page, "object-table") == [
        [value, "value", "4.0 MiB", "9.0 s", "ana", owner, "1", "disk"],
        [named, "result of table of prices", "2.0 MiB", "90.0 s", "ana", owner, "3", "memory"],
    ]
    assert cells(page, "object-clients") == [[owner, "ana", "2", "6.0 MiB", "41 on desk"]]
    assert cells(page, "object-hosts") == [
        ["node7", "0 B", "0 B", "1.0 MiB", "3.0 MiB"], ["(others)", "0 B", "0 B", "7 B", "8 B"]
    ]  # fmt: skip
    read = tuple(replace(one, got_bytes=one.got_bytes + 5000) for one in told.storage.traffic)
    served.tell(replace(told, sequence=2, storage=replace(told.storage, traffic=read)), at=1_010.0)
    seen(page.locator("#object-hosts"), "500 B")
    assert [row[1:3] for row in cells(page, "object-hosts")] == [["0 B", "500 B"]] * 2
    served.tell(replace(told, sequence=3, storage=replace(told.storage, largest=())), at=1_011.0)
    seen(page.locator("#object-table"), "no object has 64 KiB or more")


def test_a_page_whose_connection_was_lost_goes_on(page: Page, served: ServedPage) -> None:
    """It keeps the runs that it has, and is told those that it has not."""
    served.tell(status([worker(0)]), samples([worker(0)], first=10))
    page.reload()
    open_view(page, "tasks")
    seen(page.locator("#task-count"), "2 of the last 2 tasks")
    served.tell(samples([worker(0)], first=20))
    seen(page.locator("#task-count"), "4 of the last 4 tasks")
    opened: list[str] = []
    feed, open_page = served.feed, served.feed.open

    def reopened(address: str = "", last_event_id: str = "") -> object:
        opened.append(last_event_id)
        feed.heard(*heard(samples([worker(0)], first=40)))
        return open_page(address, last_event_id)

    def lose() -> None:
        for one in list(feed._pages):
            feed.close(one)
            one.dismiss()
        feed._take(*heard(samples([worker(0)], first=30)), 0.0)

    feed.open = reopened  # type: ignore[method-assign,assignment]
    feed._loop.call_soon_threadsafe(lose)
    seen(page.locator("#task-count"), "8 of the last 8 tasks")
    assert len(opened) == 1 and opened[0]
    shown = page.locator("#task-table tbody tr td:last-child").all_text_contents()
    assert shown == [f"6120636c:{number}" for number in (41, 40, 31, 30, 21, 20, 11, 10)]


def test_scaler_ui_itself_goes_away(browser: Browser) -> None:
    page = browser.new_page()
    with ServedPage() as served:
        page.goto(served.url)
        seen(page.locator("#condition"), "connecting")
    seen(page.locator("#notice"), "This page has lost scaler_ui")
    seen(page.locator("#condition"), "no connection")
    page.close()


def test_a_page_that_is_refused_says_so(browser: Browser, served: ServedPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.ui.feed.PAGES_LIMIT", 0)
    page = browser.new_page()
    page.goto(served.url)
    seen(page.locator("#notice"), "scaler_ui refuses this page: too many are open")
    page.close()


def test_a_worker_that_ends_nothing_is_told_from_one_with_a_long_task(page: Page, served: ServedPage) -> None:
    """Signs of life alone do not show that a worker does its part. (MON-67)"""
    still = worker(1, still_seconds=480.0, held_count=3)
    long = worker(2, still_seconds=480.0, held_count=1)
    processors = tuple(replace(one, task_id=task(7)) for one in long.status.processors)
    long = replace(long, status=replace(long.status, processors=processors))
    served.tell(status([still, long, worker(3, still_seconds=9.0, held_count=3)]))
    seen(page.locator("#facts"), "3, 1 of them ends nothing")
    open_view(page, "workers")
    rows = page.locator("#worker-table tbody tr")
    seen(rows.first, "(ended nothing for 8 min")
    assert [rows.nth(number).evaluate("one => one.className.trim()") for number in range(3)] == ["silent", "", ""]
    page.get_by_role("searchbox").fill("nothing")
    seen(page.locator("#worker-count"), "1 of 3 workers, 1 of them ends nothing")


def test_a_user_is_shown_with_the_quota_that_is_nearest(page: Page, served: ServedPage) -> None:
    """One that is about to be refused stands out. (MON-68)"""
    users = (UserEntry("ana", 95, 2**20), UserEntry("bo", 3, 2**21), UserEntry("<b>cy"))
    served.tell(replace(status([]), users=users, user_task_limit=100, user_task_bytes_limit=2**22))
    rows = page.locator("#users tbody tr")
    seen(rows.first, "tasks 95.0%")
    seen(rows.nth(1), "arguments 50.0%")
    seen(rows.nth(2), "<b>cy")
    assert [rows.nth(number).evaluate("one => one.className.trim()") for number in range(3)] == ["silent", "", ""]
