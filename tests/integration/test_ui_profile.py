"""The view Profile of the page, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.messages import Message, StackBlock, StackSamples
from scaler_protocol.stack_trees import StackTrees
from tests.support.browsers import NEEDS_BROWSER, seen
from tests.support.pages import NASTY, SERVER, ServedPage, function, status, worker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER


class Mute:
    """A watcher whose scheduler answers nothing."""

    def ask(self, message: Message) -> None:
        pass


def test_names_in_a_profile_are_text(page: Page, served: ServedPage) -> None:
    served.feed.watcher = Mute()  # type: ignore[assignment]
    trees = StackTrees()
    trees.add(function(NASTY).function_id, ((NASTY, NASTY, 1),), 1_000_000)
    block = StackBlock(SERVER, NASTY, 0.0, trees.take(1_000))
    names = (function(NASTY),)
    samples = StackSamples(blocks=(block,), function_names=names, sampled_count=1, able_count=1, worker_count=1)
    served.tell(status([worker(0)]), samples)
    page.get_by_role("tab", name="Profile").click()
    seen(page.locator("#profile-table"), NASTY)
    assert page.get_by_role("treeitem").all_inner_texts() == [NASTY, NASTY]
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0


def test_the_profile_is_zoomed_searched_and_walked_through(page: Page, served: ServedPage) -> None:
    served.feed.watcher = Mute()  # type: ignore[assignment]
    trees = StackTrees()
    main, solve, load = ("main", "program.py", 1), ("solve", "solver.py", 20), ("load", "program.py", 30)
    for path, microseconds in (((main, solve), 3_000_000), ((main, load), 1_000_000), ((main,), 500_000)):
        trees.add(function("price").function_id, path, microseconds)
    block = StackBlock(SERVER, "w", 0.0, trees.take(1_000))
    served.tell(
        status([worker(0)]),
        StackSamples(
            blocks=(block,), function_names=(function("price"),), sampled_count=1, able_count=1, worker_count=3
        ),
    )
    page.get_by_role("tab", name="Profile").click()
    seen(page.locator("#profile-note"), "4.5 s of tasks sampled on 1 worker; 2 workers cannot be sampled")
    bars = page.get_by_role("treeitem")
    assert bars.all_inner_texts() == ["price", "main", "load", "solve"]
    seen(page.locator("#profile-table"), "solver.py:20")
    page.get_by_label("Search").and_(page.locator("#profile-search")).fill("solver")
    seen(page.locator("#profile-note"), "66.7% in calls that were searched for")
    assert page.locator("#profile-flame .found").all_inner_texts() == ["solve"]
    bars.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    seen(page.locator("#profile-detail"), "solve, solver.py:20: 3.0 s, 66.7%; by itself 3.0 s")
    assert bars.all_inner_texts() == ["price", "main", "solve"], "what is not below it, or above, is not drawn"
    page.get_by_role("button", name="Zoom out").click()
    assert len(bars.all()) == 4
    page.get_by_role("button", name="Pause").and_(page.locator("#profile-pause")).click()
    assert page.locator("#profile-pause").get_attribute("aria-pressed") == "true"
