"""Whether everyone can use the page of scaler_ui, as axe-core judges it: each view, light and dark, narrow and wide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from scaler.monitoring import Condition
from scaler_protocol.messages import ClusterEvent, HostTraffic, Message, ObjectEntry, StackBlock, StackSamples
from scaler_protocol.stack_trees import StackTrees
from tests.support.axe import axe_source
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import (
    LIVE,
    SERVER,
    ServedPage,
    failed,
    failures,
    function,
    graph,
    printed,
    samples,
    status,
    task,
    worker,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Mute:
    """A watcher whose scheduler answers nothing."""

    def ask(self, message: Message) -> None:
        pass


def tell_everything(served: ServedPage) -> None:
    """Something in each table, and rows that are marked because they are bad, or chosen."""
    them = [worker(0), worker(1, silent_seconds=9.0), worker(2)]
    busy = replace(them[0], status=replace(them[0].status, processors=(
        replace(them[0].status.processors[0], task_id=task(501)),)))  # fmt: skip
    told = status([busy, *them[1:]], queued=500, done=100_000, names=["price", "fit"])
    largest = (ObjectEntry(b"o" * 16, b"a client........", 1, 1 << 20, 9.0, False, "price"),)
    storage = replace(told.storage, largest=largest, traffic=(HostTraffic("node0", 1 << 20, 1 << 30),))
    managers = tuple(replace(one, trouble="no quota") for one in told.managers)
    served.tell(
        replace(told, storage=storage, managers=managers),
        samples(them, ["price", "fit"], first=90, each=4, ended=40),
        graph(["load", "price", "sum", "save"], [4, 4, 2, 0], [[], [0], [1], [2]], [0, 1, 0, 0]),
        printed("priced 17\n"),
        printed("a warning\n", stream=2),
        failures(
            failed(501, text="Traceback: line 7", accounts=("attempt 1 on w9: exited with code 9",)),
            events=[
                ClusterEvent(1, 9.0, "worker_joined", "alpha"),
                ClusterEvent(2, 8.0, "worker_lost", "alpha", "gone", 3),
            ],
        ),
        state=replace(LIVE, condition=Condition.SILENT, text="the scheduler has not been heard for 3 s"),
    )


def tell_profile(served: ServedPage) -> None:
    served.feed.watcher = Mute()  # type: ignore[assignment]
    trees = StackTrees()
    for name, microseconds in (("solve", 3_000_000), ("load", 1_000_000)):
        trees.add(function("price").function_id, (("main", "program.py", 1), (name, "solver.py", 20)), microseconds)
    block = StackBlock(SERVER, "w", 0.0, trees.take(1_000))
    served.tell(StackSamples(blocks=(block,), function_names=(function("price"),), sampled_count=1, able_count=1))


def judged(page: Page) -> list[str]:
    page.evaluate(DRAWN)
    found: list[dict[str, Any]] = page.evaluate(
        "axe.run({ resultTypes: ['violations'] }).then((told) => told.violations)"
    )
    return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("width", (390, 1280))
def test_every_view_is_for_everyone(page: Page, served: ServedPage, scheme: str, width: int) -> None:
    source = axe_source().read_text(encoding="utf-8")
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.classList.add('may-control')")
    tell_profile(served)
    tell_everything(served)
    seen(page.locator("#notice"), "has not been heard")
    page.locator("#replay").evaluate("bar => bar.hidden = false")
    page.evaluate(source)
    found: dict[str, list[str]] = {}
    views = [tab.get_attribute("aria-controls") or "" for tab in page.get_by_role("tab").all()]
    assert len(views) >= 12, "each view has a tab"
    for view in views:
        open_view(page, view)
        page.locator(f"#{view}").wait_for()
        if view == "profile":
            page.get_by_role("treeitem").first.wait_for()
        found[view] = judged(page)
    open_view(page, "workers")
    page.locator("#worker-table td button").first.click()
    found["a worker"] = judged(page)
    page.locator("#processor-table td button").first.click()
    seen(page.get_by_role("dialog"), "Traceback: line 7")
    found["a task"] = judged(page)
    page.locator("#task-cancel").evaluate("button => button.hidden = false")
    page.locator("#task-cancel").click()
    found["control"] = judged(page)
    assert not any(found.values()), "\n".join(f"{view}: {text}" for view, texts in found.items() for text in texts)
