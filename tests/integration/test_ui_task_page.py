"""The page of a task stays open while the task goes on, as a real browser shows it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaler_protocol.messages import WorkerEntry
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import ServedPage, failed, failures, graph, status, task, worker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER


def busy_with(number: int) -> WorkerEntry:
    one = worker(1)
    return replace(
        one, status=replace(one.status, processors=(replace(one.status.processors[0], task_id=task(number)),))
    )


def explain(page: Page, **told: Any) -> None:
    answer = json.dumps({"task": "1", "function": "", "user": "", **told})
    page.route("**/explain?task=*", lambda route: route.fulfill(body=answer, content_type="application/json"))


def open_running_task(page: Page, served: ServedPage) -> None:
    """Task 501 of a graph of three, which a worker runs."""
    page.evaluate("document.body.classList.add('may-control')")
    explain(page, state="dispatched", text="it has been running for 1.0 s")
    names, needs = ["load", "fit", "sum"], [[], [0], [1]]
    served.tell(status([busy_with(501)]), graph(names, [4, 2, 0], needs))
    open_view(page, "workers")
    page.locator("#worker-table td button").first.click()
    page.locator("#processor-table td button").click()
    seen(page.locator("#task-explanation"), "it has been running")


def test_a_task_that_fails_while_its_page_is_open(page: Page, served: ServedPage) -> None:
    """What has the focus keeps it, also when its text changes."""
    open_running_task(page, served)
    box = page.get_by_role("dialog")
    seen(box, "running")
    assert page.locator("#task-cancel").is_visible() and page.locator("#task-stack-ask").is_visible()
    follower = box.get_by_role("button", name="sum, 6120636c:502, waiting")
    follower.focus()
    page.evaluate("window.kept = document.activeElement")
    explain(page, state="", text="it failed")
    names, needs = ["load", "fit", "sum"], [[], [0], [1]]
    served.tell(
        status([worker(1)], sequence=2),
        failures(failed(501, line="no quote")),
        graph(names, [4, 4, 4], needs, [0, 1, 6]),
    )
    seen(box, "ValueError: no quote")
    seen(page.locator("#task-explanation"), "it failed")
    seen(box, "sum, 6120636c:502, skipped")
    assert page.evaluate("document.activeElement === window.kept"), "the focus has moved"
    assert not page.locator("#task-cancel").is_visible() and not page.locator("#task-stack-ask").is_visible()


def test_a_task_whose_end_only_the_scheduler_knows(page: Page, served: ServedPage) -> None:
    """It is in no sample: when its worker does not run it any more, the scheduler is asked once more."""
    open_running_task(page, served)
    page.locator("#task-cancel").focus()
    explain(page, state="", text="the scheduler does not hold it")
    served.tell(status([worker(1)], sequence=2), graph(["load", "fit", "sum"], [4, 4, 2], [[], [0], [1]]))
    seen(page.locator("#task-explanation"), "does not hold it")
    page.locator("#task-cancel").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "task-close", "the focus is on nothing"


def test_an_answer_names_the_task_as_people_do(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)]))
    explain(page, task=task(7).hex(), state="queued", text="it is queued", function="price")
    open_view(page, "waiting")
    page.locator("#explain-task").fill(task(7).hex())
    page.locator("#explain-ask").click()
    seen(page.locator("#explain-answer"), "price 6120636c:7: it is queued")


def shown_facts(page: Page) -> dict[str, str]:
    told = page.locator("#task-facts").inner_text().split("\n")
    return dict(zip(told[::2], told[1::2], strict=True))


def open_task(page: Page, **facts: Any) -> None:
    """A task that only the scheduler knows."""
    facts = {"task": task(7).hex(), "function": "price", "attempt": 1, **facts}
    explain(page, task=task(7).hex(), state=facts.get("state", ""), text="it is told", facts=facts)
    page.locator("#explain-task").fill(task(7).hex())
    page.locator("#explain-ask").click()
    page.locator("#explain-answer").get_by_role("button").click()
    seen(page.locator("#task-explanation"), "it is told")
    seen(page.locator("#task-facts"), "Submitted")


def test_the_history_of_a_task(page: Page, served: ServedPage) -> None:
    """Submitted, ready, dispatched, begun and ended, with the waits in between; what is not known is left out."""
    served.tell(status([worker(1)]))
    open_view(page, "waiting")
    begin = time.time() - 30.0
    moments = {"submitted": begin, "ready": begin + 5.0, "dispatched": begin + 7.5}
    open_task(page, status="success", at=begin + 10.25, lasted=2.0, cpu=1.0, memory=0, worker="w1", **moments)
    told = shown_facts(page)
    order = [name for name in told if name in ("Submitted", "Ready", "Dispatched", "Began", "Ran for", "Ended")]
    assert order == ["Submitted", "Ready", "Dispatched", "Began", "Ran for", "Ended"]
    assert told["Ready"].endswith(", waited 5.0 s for other tasks")
    assert told["Dispatched"].endswith(", waited 2.5 s in the queue")
    assert told["Began"].endswith(", waited 750 ms at the worker")
    assert told["Ran for"] == "2.0 s" and "Result" not in told
    page.keyboard.press("Escape")
    sizes = {"arguments": 2048, "result": 300}
    open_task(page, status="success", at=begin + 9.0, lasted=2.0, attempt=2, **{**moments, **sizes, "ready": 0})
    told = shown_facts(page)
    assert (told["Arguments"], told["Result"]) == ("2.0 KiB", "300 B")
    assert "waited" not in told["Dispatched"], "an earlier attempt is part of that time"
    assert "waited" not in told["Began"], "by the clock of the worker it began before"
    assert "Ready" not in told


def test_the_history_of_a_task_that_has_not_ended(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)]))
    open_view(page, "waiting")
    begin = time.time() - 30.0
    for state, moments, names in (
        ("waiting", {"submitted": begin}, ["Submitted", "Waiting"]),
        ("queued", {"submitted": begin, "ready": begin + 5.0}, ["Submitted", "Ready", "Queued"]),
        ("dispatched", {"submitted": begin, "dispatched": begin + 5.0}, ["Submitted", "Dispatched", "At the worker"]),
    ):
        open_task(page, state=state, status=state, **moments)
        told = shown_facts(page)
        assert list(told)[-len(names) :] == names
        assert told[names[-1]].endswith(" s until now")
        page.keyboard.press("Escape")
    served.tell(status([busy_with(7)], sequence=2))
    open_task(page, state="dispatched", status="dispatched", begun=begin + 6.0, submitted=begin, dispatched=begin + 5.0)
    told = shown_facts(page)
    assert told["Began"].endswith(", waited 1.0 s at the worker") and told["Ran for"].endswith(" s until now")
    assert "At the worker" not in told
