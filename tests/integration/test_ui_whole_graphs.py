"""Graphs of thousands of tasks, whole: by function with exact counts, and every task on a canvas, in a real browser."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scaler import Client
from scaler_protocol.messages import GraphShapes
from tests.integration.test_ui import started
from tests.support.axe import axe_source
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.clusters import RealCluster
from tests.support.pages import ServedPage, graph, status, worker
from tests.support.processes import WAIT, Stage
from tests.support.tasks import bytes_after, square, total
from tests.support.whole_graphs import WholeGraph

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = NEEDS_BROWSER
LAYER = 500
COUNT = 6 * LAYER
FAILED = 2_750
FUNCTIONS = ("load", "fit", "sum")
NAMES = [FUNCTIONS[number // LAYER % 3] for number in range(COUNT)]
NEEDS = [[number - LAYER, (number ^ 1) - LAYER] if number >= LAYER else [] for number in range(COUNT)]
#: Where on the canvas a colour is, in pixels of the page, by its red, green and blue.
PLACES = """(wanted) => {
  const canvas = document.querySelector("#graphs canvas"), ratio = canvas.width / canvas.clientWidth;
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const found = [];
  for (let i = 0; i < data.length && found.length < 1000; i += 4) {
    if (wanted.every((one, at) => Math.abs(data[i + at] - one) < 3) && data[i + 3] === 255) {
      found.push([i / 4 % canvas.width / ratio, Math.floor(i / 4 / canvas.width) / ratio]);
    }
  }
  return found;
}"""
COLOUR = """(state) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(document.querySelector(`.swatch.${state}`)).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def shapes(ended: int, *, failed: bool = False) -> GraphShapes:
    states = [4] * ended + [2] * min(4, COUNT - ended) + [0] * (COUNT - ended - 4)
    outcomes = [int(failed and number == FAILED) for number in range(COUNT)]
    return graph(NAMES, states, NEEDS, outcomes, [f"{name}-{number}" for number, name in enumerate(NAMES)])


def shown(page: Page, served: ServedPage, ended: int, *, failed: bool = False) -> WholeGraph:
    scheduler = WholeGraph(served.feed, shapes(ended, failed=failed))
    served.tell(status([worker(1)]))
    scheduler.become(scheduler.whole)
    open_view(page, "graphs")
    return scheduler


def places(page: Page, state: str) -> list[list[float]]:
    page.evaluate(DRAWN)
    found: list[list[float]] = page.evaluate(PLACES, page.evaluate(COLOUR, state))
    return found


def test_groups_count_each_task_and_follow_them(page: Page, served: ServedPage) -> None:
    """Six layers of 500: the event tells of 1,000 tasks, and the failure is far behind them."""
    scheduler = shown(page, served, 700)
    place, boxes = page.locator("#graphs"), page.locator("#graphs .node")
    seen(place, "2,300 of 3,000 tasks unfinished")
    seen(boxes.nth(5), "0 of 500")  # the picture of all groups, after that of the event's 1,000 tasks
    counts = boxes.locator("text").all_text_contents()
    assert counts[:4] == ["load", "500 of 500", "fit", "200 of 500"] and len(counts) == 12
    seen(place, "Longest way: 6 tasks, through load-0 → fit-500 → sum-1000 → load-1500 → fit-2000 → sum-2500")
    assert "drawn" not in place.inner_text()
    scheduler.become(shapes(COUNT, failed=True))
    seen(place, f"no longer runs, failed at sum-{FAILED}: 1 failed, 2,999 succeeded.")
    seen(boxes.last, "500 of 500, 1 failed")
    page.get_by_role("button", name="Next failure").click()
    seen(place, "sum, 500 tasks: 1 failed, 499 succeeded")
    assert [one.first for one in scheduler.questions if one.wants_shape] == [0, 1_000, 2_000]


def test_every_task_is_drawn_chosen_and_opened(page: Page, served: ServedPage) -> None:
    shown(page, served, FAILED + 1, failed=True)
    place, frame = page.locator("#graphs"), page.locator("#graphs .graph")
    seen(place, f"failed at sum-{FAILED}")
    page.get_by_role("button", name="Show every task").click()
    assert page.locator("#graphs .node").count() == 0, "no element for each"
    page.get_by_role("button", name="Fit").click()
    red = places(page, "failed")
    assert red, "one of three thousand is seen"
    (x, y) = red[len(red) // 2]
    page.locator("#graphs canvas").click(position={"x": x, "y": y})
    seen(place.locator("[role=status]"), f"sum-{FAILED}, sum, task 6120636c:{500 + FAILED}, failed, needs 2 tasks")
    frame.press("ArrowLeft")
    seen(place.locator("[role=status]"), ", fit, task")
    frame.press("f")
    seen(place.locator("[role=status]"), f"sum-{FAILED}, sum")
    page.get_by_role("button", name="All about this task").click()
    box = page.get_by_role("dialog")
    seen(box.locator("#task-facts"), f"sum-{FAILED}")
    seen(box.locator("#task-needs"), f"fit-{FAILED - LAYER}")
    box.get_by_role("button", name="Close").click()
    for _ in range(9):
        frame.press("+")
    frame.press("ArrowUp")
    frame.press("f")
    assert places(page, "failed"), "it is scrolled to what is chosen"
    light = page.evaluate(COLOUR, "ended")
    page.locator("#theme").click()
    assert page.evaluate(COLOUR, "ended") != light and places(page, "ended"), "it is drawn in the colours of the dark"
    page.get_by_role("button", name="Group by function").click()
    assert page.locator("#graphs .node").count() == 6


def test_a_chosen_task_and_the_place_stay_when_states_come(page: Page, served: ServedPage) -> None:
    scheduler = shown(page, served, 1_200)
    page.get_by_role("button", name="Show every task").click()
    frame = page.locator("#graphs .graph")
    frame.press("ArrowDown")
    frame.press("ArrowDown")
    seen(page.locator("#graphs [role=status]"), "load-1, load")
    frame.evaluate("one => { one.scrollTop = 700; }")
    scheduler.become(shapes(2_000))
    seen(page.locator("#graphs h2"), "1,000 of 3,000 tasks unfinished")
    assert frame.evaluate("one => one.scrollTop") == 700
    seen(page.locator("#graphs [role=status]"), "load-1, load")


def test_a_recording_shows_what_was_told(page: Page, served: ServedPage) -> None:
    """No scheduler answers there."""
    scheduler = WholeGraph(served.feed, shapes(700))
    served.feed.watcher = None
    served.tell(status([worker(1)]))
    scheduler.become(scheduler.whole)
    open_view(page, "graphs")
    seen(page.locator("#graphs"), "1,000 of 3,000 tasks are drawn")
    seen(page.locator("#graphs"), "Longest way of the tasks drawn")


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("width", (390, 1280))
def test_the_canvas_is_for_everyone(page: Page, served: ServedPage, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    shown(page, served, FAILED + 1, failed=True)
    seen(page.locator("#graphs"), f"failed at sum-{FAILED}")
    page.get_by_role("button", name="Show every task").click()
    page.get_by_role("button", name="Fit").click()
    assert places(page, "failed") and places(page, "ended")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, "the page itself is not scrolled sideways"
    page.evaluate(axe_source().read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run({ resultTypes: ['violations'] }).then((told) => told.violations.map((one) => one.id))"
    )
    assert found == []


def test_a_real_graph_of_thousands_ends_before_the_eyes(stage: Stage, browser: Browser, tmp_path: Path) -> None:
    """1,200 tasks succeed, and 1,200 more wait for one that fails when it is let."""
    cluster = RealCluster(stage, 2, scheduler=("--status-report-interval-seconds", "0.1"))
    _, url = started(stage, cluster.monitor_address)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    open_view(page, "graphs")
    gate = tmp_path / "gate"
    graph: dict[str, Any] = {f"load-{number}": (square, number) for number in range(1_200)}
    graph |= {"path": str(gate), "gate": (bytes_after, "path", -1)}
    graph |= {f"fit-{number}": (total, f"load-{number}", "gate") for number in range(1_200)}
    with Client(cluster.address) as client:
        thread = threading.Thread(target=_get, args=(client, graph))
        thread.start()
        place = page.locator("#graphs")
        seen(place, "1,201 of 2,401 tasks unfinished")
        seen(place.locator("svg"), "1,200 of 1,200")
        assert "drawn" not in place.inner_text()
        gate.touch()
        seen(place, "no longer runs, failed at gate: 1 failed, 1,200 never ran, 1,200 succeeded.")
        thread.join(WAIT)
        page.get_by_role("button", name="Show every task").click()
        page.get_by_role("button", name="Fit").click()
        (x, y) = places(page, "failed")[0]
        page.locator("#graphs canvas").click(position={"x": x, "y": y})
        seen(place.locator("[role=status]"), "gate, bytes_after, task")
        page.get_by_role("button", name="All about this task").click()
        seen(page.get_by_role("dialog"), "and 1188 more")
    page.close()
    cluster.stop()


def _get(client: Client, graph: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        client.get(graph, [key for key in graph if key.startswith("fit")])
