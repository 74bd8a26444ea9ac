"""The page of scaler_ui in a real browser, which is driven as people do it: clicks, keys, and what is to be seen."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.monitoring import Condition
from scaler_protocol.messages import ClusterEvent, Count
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import (
    LIVE,
    NASTY,
    SERVER,
    ServedPage,
    failed,
    failures,
    graph,
    printed,
    samples,
    status,
    task,
    with_objects,
    worker,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: views that show no name of a stranger here, and what they show. Names in a profile: test_ui_profile.
WITHOUT_NAMES = {"running": "no worker runs a task", "waiting": "gpu=4", "profile": "A recording has no profile"}
VIEWS = (
    *("overview", "workers", "running", "work", "profile", "stream", "tasks"),
    *("errors", "graphs", "waiting", "objects", "events", "logs"),
)

pytestmark = NEEDS_BROWSER


def tell_cluster(served: ServedPage, workers: int = 3) -> None:
    them = [worker(number) for number in range(workers)]
    served.tell(
        with_objects(status(them, queued=500, done=100_000, names=["price", "fit"])),
        samples(them, ["price", "fit"], first=90, each=4, ended=40),
        graph(["load", "price", "sum"], [4, 2, 0], [[], [0], [1]]),
        printed("priced 17\n"),
        failures(failed(700), events=[ClusterEvent(1, 9.0, "worker_joined", "2|node0")]),
    )


def test_every_view_by_clicks_and_by_keys(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    seen(page.locator("#condition"), "live")
    words = {
        "overview": "100,000",
        "workers": "2|node0|1002",
        "running": "no worker runs a task",
        "work": "2 functions",
        "stream": "A sample: 12 of 120 tasks that ended in this time (10%)",
        "tasks": "12 of the last 12 tasks; a sample, 12 of 120",
        "graphs": "2 of 3 tasks unfinished",
        "waiting": "no connected worker offers this",
        "objects": "table of prices",
        "logs": "priced 17",
        "profile": "A recording has no profile",
        "errors": "1 kind of error in 1 task",
        "events": "2|node0",
    }
    for view in VIEWS:
        open_view(page, view)
        seen(page.locator(f"#{view}"), words[view])
        assert page.locator("section:not([hidden])").count() == 1
        assert page.url.endswith(f"#/{view}")
    page.locator("#tab-logs").press("ArrowRight")
    assert page.locator("#tab-overview").get_attribute("aria-selected") == "true", "round to the first"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-logs"
    page.reload()
    seen(page.locator("#logs"), "priced 17")


def test_functions_have_bars_and_times(page: Page, served: ServedPage) -> None:
    them = [worker(1)]
    served.tell(status(them, sequence=1, queued=500, done=1_000, names=["price", NASTY]))
    open_view(page, "work")
    first = page.locator("#work-table tbody tr").first
    seen(first, "price")
    bar = first.locator(".progress")
    told = bar.get_attribute("aria-label") or ""
    assert told == "65.3% of 766 tasks: 475 succeeded, 25 failed, 16 with workers, 250 queued"
    widths = bar.evaluate(
        "bar => [...bar.children].map((part) => Math.round(100 * part.offsetWidth / bar.clientWidth))"
    )
    assert [abs(found - wanted) <= 2 for found, wanted in zip(widths, (62, 3, 0, 2, 33), strict=True)] == [True] * 5
    cells = first.locator("td").all_text_contents()
    assert cells[3:] == [
        "–", "7.5 ms", "5.6 ms", "6.4 ms", "50.0%", "500 ms", "250", "16", "25", "766", "475", "0"
    ]  # fmt: skip
    served.tell(status(them, sequence=11, queued=100, done=1_400, names=["price", NASTY]))
    seen(first, "665")
    rate = first.locator("td").nth(2).text_content() or "0"
    assert float(rate.replace(",", "")) >= 0, "from a thousand on with a comma"
    first.locator("button").focus()
    page.keyboard.press("Enter")
    seen(page.locator("#work-chosen"), "How long runs of price took")
    lines = page.locator("#work-runs li").all_text_contents()
    assert lines[0] == "at most 6.4 ms693" and lines[-1] == "at most 410 ms3" and len(lines) == 13
    page.locator("#work-search").fill("nothing has this name")
    seen(page.locator("#work-count"), "0 functions")


def test_names_of_strangers_are_text(page: Page, served: ServedPage) -> None:
    them = [worker(1, name=NASTY)]
    told = with_objects(status(them, queued=5, names=[NASTY]), NASTY, NASTY)
    managers = tuple(replace(one, name=NASTY, trouble=NASTY) for one in told.managers)
    clients = tuple(replace(one, software=replace(one.software, host=NASTY, language=NASTY)) for one in told.clients)
    served.tell(
        replace(told, managers=managers, clients=clients, scheduler_address=NASTY),
        samples(them, [NASTY]),
        graph([NASTY], [2], [[]], keys=["k" + NASTY]),
        replace(printed(NASTY), worker=NASTY),
        failures(
            replace(failed(1, line=NASTY), type_name=NASTY, worker=NASTY, user=NASTY, text=NASTY, accounts=(NASTY,)),
            events=[ClusterEvent(1, 9.0, NASTY, NASTY, NASTY)],
        ),
        state=replace(LIVE, condition=Condition.SILENT, text=NASTY),
    )
    seen(page.locator("#notice"), NASTY)
    for view in VIEWS:
        open_view(page, view)
        seen(page.locator(f"#{view}"), WITHOUT_NAMES.get(view, NASTY))
    for table in ("object-table", "object-hosts", "object-clients"):
        seen(page.locator(f"#{table}"), NASTY)
    open_view(page, "workers")
    page.get_by_role("button", name=NASTY).click()
    seen(page.locator("#worker-name"), NASTY)
    open_view(page, "errors")
    page.locator("#error-tasks").get_by_role("button", name="6120636c:1").click()
    seen(page.locator("#task-error-line"), NASTY)
    seen(page.locator("#task-traceback"), NASTY)
    page.get_by_role("button", name="Close").click()
    open_view(page, "stream")
    page.locator("#stream-canvas").press("ArrowRight")
    seen(page.locator("#stream-detail"), NASTY)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0


def test_a_thousand_workers_are_sorted_searched_and_seen_to_be_silent(page: Page, served: ServedPage) -> None:
    silent = worker(999, silent_seconds=31.0)
    served.tell(status([*(worker(number) for number in range(999)), silent]))
    seen(page.locator("#facts"), "1,000, 1 silent")
    open_view(page, "workers")
    rows = page.locator("#worker-table tbody tr")
    seen(page.locator("#worker-count"), "1,000 workers, 1 silent")
    assert rows.count() == 200
    page.get_by_role("button", name="Show 200 more").first.click()
    assert rows.count() == 400
    seen(rows.nth(2), "2|node0|1002")
    page.get_by_role("button", name="Completed").click()
    seen(rows.first, "999|node62|1999 (silent 31.0 s)")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Completed")
    page.get_by_role("searchbox").fill("node62 998")
    seen(page.locator("#worker-count"), "1 of 1,000 workers")
    page.get_by_role("searchbox").fill("silent")
    seen(rows.first, "999|")


def test_the_task_stream_is_zoomed_moved_and_walked_through(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    open_view(page, "stream")
    stream, detail = page.locator("#stream-canvas"), page.locator("#stream-detail")
    seen(page.locator("#stream-note"), "12 bars here")
    seen(page.locator("#stream-legend"), "did not succeed")
    stream.press("ArrowRight")
    seen(detail, "on processor 1000 of worker 0|node0|1000")
    stream.press("ArrowDown")
    seen(detail, "of worker 1|node0|1001")
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").click()
    assert "0 bars here" not in page.locator("#stream-note").inner_text(), "it is zoomed around the chosen bar"
    follow = page.get_by_role("button", name="Follow")
    assert follow.get_attribute("aria-pressed") == "false", "what is chosen stays in sight"
    stream.press("-")
    page.get_by_role("button", name="Earlier").click()
    assert follow.get_attribute("aria-pressed") == "false"
    for _ in range(9):
        page.get_by_role("button", name="Earlier").click()
    seen(page.locator("#stream-note"), "0 bars here")
    follow.click()
    assert follow.get_attribute("aria-pressed") == "true"
    page.get_by_role("searchbox").fill("nobody")
    seen(page.locator("#stream-note"), "0 bars here")


def test_a_task_of_a_graph_is_asked_about(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    open_view(page, "graphs")
    page.locator("#graphs .node.waiting").click()
    seen(page.locator("#graphs"), "sum, task 6120636c:502, waiting, needs 1 task")
    served.tell(graph(["load", "price", "sum"], [4, 4, 2], [[], [0], [1]]))
    seen(page.locator("#graphs"), "sum, task 6120636c:502, dispatched")
    page.get_by_role("button", name="Why does it wait?").click()
    assert page.get_by_label("Task id").input_value() == task(502).hex()
    seen(page.locator("#explain-answer"), "no scheduler answers")
    served.tell(replace(graph([], [], []), graphs=(), server_id=SERVER))
    open_view(page, "graphs")
    seen(page.locator("#graphs"), "no longer runs, all 3 tasks succeeded")


def test_errors_are_grouped_and_lead_to_their_tasks(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    served.tell(
        failures(*(failed(number, line="too large") for number in range(800, 803)), failed(810, "price", "no quote"))
    )
    seen(page.locator("#tab-errors"), "Errors (5)")
    open_view(page, "errors")
    rows = page.locator("#error-groups tbody tr")
    seen(page.locator("#error-count"), "2 kinds of error in 5 tasks")
    assert rows.count() == 2
    page.locator("#error-groups").get_by_role("button", name="fit").click()
    assert page.locator("#error-tasks tbody tr").count() == 4
    served.tell(failures(failed(803)))
    seen(page.locator("#error-count"), "in 6 tasks")
    assert page.locator("#error-tasks tbody tr").count() == 5, "what is chosen stays chosen"
    page.locator("#error-search").fill("quote")
    seen(page.locator("#error-count"), "1 kind of error in 1 task")
    page.locator("#error-search").fill("price")
    served.tell(failures(*(failed(number, "price", f"order {number} has no price") for number in (4, 12))))
    seen(page.locator("#error-count"), "2 kinds of error in 3 tasks")


def test_errors_count_tasks_that_workers_or_the_scheduler_did_not_end_well(page: Page, served: ServedPage) -> None:
    counts = {"success": 9, "failed": 0, "canceled": 5, "worker_lost": 3, "refused": 4}
    told = replace(status([worker(1)]), task_counts=tuple(Count(*one) for one in counts.items()))
    served.tell(told, failures(failed(1)))
    open_view(page, "errors")
    seen(page.locator("#error-count"), "; 7 failed since the scheduler's start")


def test_a_tasks_page_says_all_that_is_known(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    told = failed(501, "price", "no quote", accounts=("attempt 1 on w9: exited with code 9",), memory_bytes=3 << 20)
    served.tell(failures(replace(told, text="Traceback: line 7", parent_task=task(4))))
    open_view(page, "errors")
    page.locator("#error-tasks").get_by_role("button", name="6120636c:501").click()
    box = page.get_by_role("dialog")
    for words in (
        task(501).hex(), "ValueError: no quote", "Traceback: line 7", "500 ms", "3.0 MiB more than before", "ana",
        "attempt 1 on w9", "load, 6120636c:500", "sum, 6120636c:502", "6120636c:4",
        "it failed after 0.5 s on 1|node0|1001: ValueError: no quote",
    ):  # fmt: skip
        seen(box, words)
    box.get_by_role("button", name="sum, 6120636c:502").click()
    seen(box, "Task 6120636c:502")
    assert not page.locator("#task-error").is_visible()
    page.keyboard.press("Escape")
    assert not box.is_visible()
    open_view(page, "tasks")
    page.locator("#task-table").get_by_role("button", name="6120636c:96").click()
    seen(box, "failed")
    page.keyboard.press("Escape")
    open_view(page, "graphs")
    page.locator("#graphs .node.waiting").click()
    page.get_by_role("button", name="All about this task").click()
    seen(box, "waiting")
    page.keyboard.press("Escape")
    open_view(page, "stream")
    page.locator("#stream-canvas").press("ArrowRight")
    page.locator("#stream-canvas").press("Enter")
    seen(box, "Processor")


def test_a_tasks_page_shows_what_only_the_scheduler_knows(page: Page, served: ServedPage) -> None:
    """Of a task that succeeded, in its third attempt, and of one that runs."""
    tell_cluster(served)
    facts = {
        "task": task(98).hex(), "function": "price", "key": "<i>price-98", "client": "c0ffee00", "user": "bo<b>",
        "worker": "w7", "attempt": 3, "accounts": ["w9: connection <closed>"], "arguments": 2048,
        "parent": task(4).hex(),
        "children": [], "childCount": 0, "status": "success", "at": 1_700_000_000, "lasted": 0.5,
        "cpu": 0.125, "memory": 3 << 20, "type": "", "line": "", "text": "", "graph": "",
    }  # fmt: skip
    answers = [{"task": facts["task"], "state": "", "text": "it succeeded", "facts": facts}]
    page.route("**/explain?task=*", lambda route: route.fulfill(json=answers[-1]))
    open_view(page, "tasks")
    page.locator("#task-table").get_by_role("button", name="6120636c:98").click()
    box = page.get_by_role("dialog")
    for words in (
        "<i>price-98",
        "c0ffee00",
        "bo<b>",
        "w9: connection <closed>",
        "2.0 KiB",
        "6120636c:4",
        "125 ms",
        "3.0 MiB more",
    ):
        seen(box, words)
    assert not page.locator("#task-error").is_visible() and not page.locator("#task-children").is_visible()
    page.keyboard.press("Escape")
    children = [{"task": task(600).hex(), "state": "queued"}]
    running = {
        "task": task(501).hex(),
        "client": "c0ffee00",
        "status": "dispatched",
        "children": children,
        "childCount": 9,
    }
    answers.append({"task": task(501).hex(), "state": "dispatched", "text": "it runs", "facts": running})
    page.locator("#task-table").get_by_role("button", name="6120636c:97").click()
    seen(page.locator("#task-children"), "6120636c:600, queued")
    seen(page.locator("#task-children"), "and 8 more")


def test_a_running_tasks_page_asks_where_it_is(page: Page, served: ServedPage) -> None:
    running = worker(0)
    processors = (replace(running.status.processors[0], task_id=task(500)),)
    them = [replace(running, status=replace(running.status, processors=processors))]
    served.tell(status(them, names=["price"]), failures(failed(500, "price", "no quote"), failed(501)))
    open_view(page, "errors")
    page.locator("#error-tasks").get_by_role("button", name="6120636c:500").click()
    page.get_by_role("button", name="Where in its code is it now?").click()
    seen(page.locator("#task-stack-note"), "no scheduler answers")
    assert not page.locator("#task-stack").is_visible()
    answer = '{"text": "in <b>price</b>", "reason": "", "worker": "w1", "state": "running"}'
    page.route("**/stack?task=*", lambda route: route.fulfill(body=answer, content_type="application/json"))
    page.get_by_role("button", name="Where in its code is it now?").click()
    seen(page.locator("#task-stack"), "in <b>price</b>")
    seen(page.locator("#task-stack-note"), "on worker w1")
    page.keyboard.press("Escape")
    page.locator("#error-tasks").get_by_role("button", name="6120636c:501").click()
    assert not page.locator("#task-stack-ask").is_visible() and not page.locator("#task-stack").is_visible()


def test_a_graph_that_failed_is_red_where_it_failed(page: Page, served: ServedPage) -> None:
    names, needs = ["load", "boom", "sum", "save"], [[], [0], [1], [2]]
    served.tell(status([worker(1)]), graph(names, [4, 4, 4, 4], needs, [0, 1, 6, 2]))
    open_view(page, "graphs")
    seen(page.locator("#graphs h2"), "failed at boom: 1 failed, 1 never ran, 1 canceled, 1 succeeded")
    for state in ("ended", "failed", "skipped", "canceled"):
        assert page.locator(f"#graphs .node.{state}").count() == 1, state
    colours = page.evaluate(
        "['ended', 'failed', 'skipped'].map((s) => getComputedStyle(document.querySelector(`.node.${s} rect`)).fill)"
    )
    assert len(set(colours)) == 3
    served.tell(replace(graph([], [], []), graphs=(), server_id=SERVER))
    seen(page.locator("#graphs h2"), "failed at boom: 1 failed")
    assert page.locator("#graphs .node.failed").count() == 1, "it stays red when it is gone"


def test_events_are_told_with_names(page: Page, served: ServedPage) -> None:
    served.tell(
        replace(status([worker(1)]), events=(ClusterEvent(7, 3.0, "worker_lost", "alpha", "connection closed", 73),))
    )
    open_view(page, "events")
    rows = page.locator("#event-table tbody tr")
    seen(rows.first, "worker lost")
    seen(rows.first, "alpha")
    seen(rows.first, "73")
    served.tell(
        replace(
            status([worker(1)], sequence=2),
            events=(
                ClusterEvent(7, 4.0, "worker_lost", "alpha", "connection closed", 73),
                ClusterEvent(8, 0.0, "worker_joined", "beta"),
            ),
        )
    )
    seen(rows.first, "beta")
    assert rows.count() == 2, "each once"
    page.locator("#event-search").fill("lost")
    seen(rows.first, "alpha")


def test_the_task_log_is_searched(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    open_view(page, "tasks")
    page.get_by_role("searchbox").fill("failed")
    seen(page.locator("#task-count"), "1 of the last 12 tasks")
    seen(page.locator("#task-table"), "6120636c:96")


def test_the_task_log_stands_still_while_it_is_paused(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    open_view(page, "tasks")
    counted, rows = page.locator("#task-count"), page.locator("#task-table tbody tr")
    seen(counted, "12 of the last 12")
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    first = rows.first.inner_text()
    served.tell(samples([worker(7)], ["late"], first=700, each=5))
    open_view(page, "stream")
    seen(page.locator("#stream-note"), "17 of 125 tasks that ended in this time")
    open_view(page, "tasks")
    seen(counted, "12 of the last 12")
    assert rows.first.inner_text() == first and pause.get_attribute("aria-pressed") == "true"
    pause.click()
    seen(counted, "17 of the last 17")
    seen(rows.first, "late")
    page.get_by_role("button", name="Ran").click()
    seen(page.locator("#task-table th[aria-sort=descending]"), "Ran")


def test_what_was_before_the_page_was_opened_is_there_once(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    seen(page.locator("#condition"), "live")
    for number in range(3):
        served.tell(samples([worker(1)], each=2, first=10 * number), printed(f"line {number}\n", number))
        page.reload()
        open_view(page, "tasks")
        seen(page.locator("#task-count"), f"of the last {14 + 2 * number} tasks")
        open_view(page, "logs")
        seen(page.get_by_role("log"), f"line {number}")
        assert page.locator("#log-lines div").count() == number + 2


def test_an_idle_cluster_has_its_last_task_shown(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    served.tell(status([worker(1)], sequence=2), at=time.time() + 500)
    open_view(page, "stream")
    seen(page.locator("#stream-note"), "0 bars here")
    page.get_by_role("button", name="Last task").click()
    seen(page.locator("#stream-note"), "12 bars here")
    follow = page.get_by_role("button", name="Follow")
    assert follow.get_attribute("aria-pressed") == "false"
    chosen = page.locator("#stream-detail").inner_text()
    for _ in range(3):
        page.locator("#stream-canvas").press("+")
    seen(page.locator("#stream-detail"), chosen)
    assert "0 bars here" not in page.locator("#stream-note").inner_text(), "it is zoomed around what is chosen"


def test_before_anything_is_known_nothing_is_asserted(page: Page, served: ServedPage) -> None:
    seen(page.locator("#start-command"), f"scaler_scheduler {LIVE.address}")
    for view in VIEWS:
        open_view(page, view)
        assert page.locator(f"#{view}").inner_text().split() == page.locator("#nothing-yet").inner_text().split(), view
    tell_cluster(served)
    open_view(page, "overview")
    seen(page.locator("#facts"), "100,000")
    assert not page.locator("#nothing-yet").is_visible()


def test_the_end_of_a_recording_is_no_alarm(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    served.tell(state=replace(LIVE, condition=Condition.ENDED, text="this is the end of the recording"))
    seen(page.locator("#condition"), "recording ended")
    assert not page.title().startswith("(!)") and not page.locator("#notice").is_visible()


def test_what_is_printed_is_added_and_stays_where_it_is(page: Page, served: ServedPage) -> None:
    served.tell(status([]), *(printed(f"line {number}\n", number) for number in range(300)))
    open_view(page, "logs")
    lines = page.get_by_role("log")
    seen(lines, "line 299")
    page.evaluate(
        "document.getElementById('log-lines').scrollTop = 7; window.kept = document.querySelector('.log div')"
    )
    served.tell(printed("something new\n"))
    seen(lines, "something new")
    assert page.evaluate("[document.getElementById('log-lines').scrollTop, window.kept.isConnected]") == [7, True]
    page.get_by_role("searchbox").fill("something")
    assert lines.locator("div").count() == 1


def test_the_schedulers_loss_and_return(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    silent = replace(LIVE, condition=Condition.SILENT, text="the scheduler has not been heard for 3 s")
    served.tell(state=silent)
    seen(page.locator("#notice"), "not been heard for 3 s")
    seen(page.locator("#facts"), "100,000")
    assert page.title().startswith("(!)")
    served.tell(status([], sequence=1), state=replace(LIVE, restart_count=1))
    seen(page.locator("#condition"), "live: restarted 1×")
    assert not page.locator("#notice").is_visible() and not page.title().startswith("(!)")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    page.set_viewport_size({"width": 360, "height": 700})
    for view in VIEWS:
        open_view(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_everything_has_a_name_and_dark_is_dark(page: Page, served: ServedPage) -> None:
    tell_cluster(served)
    seen(page.locator("#condition"), "live")
    for view in VIEWS:
        open_view(page, view)
        for role in ("button", "img", "application", "searchbox", "textbox", "table", "region", "tabpanel", "tab"):
            for place in page.get_by_role(role).all():  # type: ignore[arg-type]
                assert re.match(r"""- '?[a-z]+ ["/]""", place.aria_snapshot()), (view, role, place.aria_snapshot())
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.className") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.className") == "dark", "it is remembered"
