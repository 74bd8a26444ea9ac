"""Large graphs, the longest way through one, and tasks that wait for their own tasks, as a real browser draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler_protocol.messages import GraphShapes
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import ServedPage, graph, samples, status, task, worker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER


def test_what_a_task_waited_for_its_own_tasks_is_hatched(page: Page, served: ServedPage) -> None:
    """The bar of a task that was blocked has fewer pixels of its colour than that of one that was not."""
    one, two = worker(1), worker(2)
    waits = replace(one.status.processors[0], state=3, task_id=task(0), running_seconds=0.5)
    blocked = replace(one, status=replace(one.status, processors=(waits,)))
    served.tell(status([blocked, two]))
    served.tell(status([one, two], sequence=2), samples([one, two], each=1))
    open_view(page, "stream")
    seen(page.locator("#stream-legend"), "hatched: it waited for tasks of its own")
    page.locator("#stream-live").click()
    painted = """() => {
      const canvas = document.getElementById("stream-canvas"), pen = canvas.getContext("2d");
      const ratio = canvas.width / canvas.clientWidth;
      const all = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      const [above, below] = [26, 44].map((y) => {
        const first = 4 * canvas.width * Math.round(y * ratio), counts = new Map();
        const row = all.subarray(first, first + 8 * 4 * canvas.width);
        for (let i = 0; i < row.length; i += 4) {
          const key = [row[i], row[i + 1], row[i + 2], row[i + 3]].join();
          if (row[i + 3] && key !== "255,255,255,255") counts.set(key, (counts.get(key) ?? 0) + 1);
        }
        return counts;
      });
      const [colour, whole] = [...below].reduce((best, one) => (one[1] > best[1] ? one : best));
      return [above.get(colour) ?? 0, whole];
    }"""
    for _ in range(3):
        page.locator("#stream-in").click()
    page.locator("#stream-canvas").press("ArrowLeft")
    page.locator("#stream-canvas").press("ArrowUp")
    seen(page.locator("#stream-detail"), "of them for tasks of its own")
    hatched, whole = page.evaluate(painted)
    assert 0 < hatched < whole


def test_a_large_graph_is_drawn_by_function_and_opens(page: Page, served: ServedPage) -> None:
    """400 loads, 400 fits of them, one sum of all: three boxes with counts, of which each opens by a click or a key."""
    names = ["load"] * 400 + ["fit"] * 400 + ["sum"]
    needs: list[list[int]] = [[] for _ in range(400)] + [[number] for number in range(400)] + [list(range(400, 800))]
    states = [4] * 400 + [4] * 100 + [2] * 4 + [1] * 296 + [0]
    outcomes = [1 if state == 4 and number == 7 else 0 for number, state in enumerate(states)]
    served.tell(status([worker(1)]), graph(names, states, needs, outcomes))
    open_view(page, "graphs")
    boxes = page.locator("#graphs .node")
    seen(page.locator("#graphs .graph"), "100 of 400")
    assert boxes.count() == 3 and page.locator("#graphs .node.failed").count() == 1
    boxes.nth(1).click()
    seen(page.locator("#graphs"), "fit, 400 tasks: 100 succeeded, 4 dispatched, 296 queued")
    page.get_by_role("button", name="Open the group").click()
    assert boxes.count() == 1 + 201 + 1, "two hundred of them, the others as one box"
    seen(page.locator("#graphs .graph"), "0 of 200")
    page.get_by_role("button", name="Close its group").click()
    assert boxes.count() == 3
    page.locator("#graphs .graph").press("Enter")
    assert boxes.count() == 203
    page.locator("#graphs .graph").press("Enter")
    page.locator("#graphs .graph").press("ArrowLeft")
    seen(page.locator("#graphs"), "load, 400 tasks: 1 failed, 399 succeeded")
    wide = page.locator("#graphs svg").bounding_box()
    page.locator("#graphs .graph").press("-")
    narrow = page.locator("#graphs svg").bounding_box()
    assert wide is not None and narrow is not None and narrow["width"] < wide["width"]
    page.get_by_role("button", name="Show every task").click()
    assert boxes.count() == 801
    page.get_by_role("button", name="Fit").click()
    page.get_by_role("button", name="Group by function").click()
    served.tell(graph(names, [4] * 801, needs, outcomes))
    seen(page.locator("#graphs .graph"), "400 of 400")


def test_the_tasks_of_a_graph_are_called_by_their_keys(page: Page, served: ServedPage) -> None:
    names = ["load"] * 3 + ["sum"]
    keys = ["load-1", "", "('read-csv-0123456789abcdef0123456789abcdef', 7)", "<img src=x>"]
    served.tell(status([worker(1)]), graph(names, [4, 4, 4, 2], [[], [], [], [0, 1, 2]], [0, 0, 1, 0], keys))
    open_view(page, "graphs")
    boxes = page.locator("#graphs .node")
    assert boxes.locator("text").all_text_contents() == ["load-1", "load", "('read-c…def', 7)", "<img src=x>"]
    titles = boxes.locator("title").all_text_contents()
    assert titles[:2] == ["load-1, load, task 6120636c:500", "load, task 6120636c:501"]
    assert titles[2] == f"{keys[2]}, load, task 6120636c:502"
    seen(page.locator("#graphs h2"), f"failed at {keys[2]}: 1 failed")
    seen(page.locator("#graphs"), "through load-1 → <img src=x>")
    boxes.nth(3).click()
    seen(page.locator("#graphs [role=status]"), "<img src=x>, sum, task 6120636c:503, dispatched")
    page.get_by_role("button", name="All about this task").click()
    box = page.get_by_role("dialog")
    seen(box.locator("#task-facts"), "<img src=x>")
    seen(box.locator("#task-needs"), "load-1, 6120636c:500")
    box.get_by_role("button", name="load-1").click()
    seen(box.locator("#task-facts"), "load-1")
    assert page.locator("#graphs img, dialog img").count() == 0


def test_the_longest_way_through_a_graph_and_slack(page: Page, served: ServedPage) -> None:
    """Two branches: four times 0.45 s, as samples tell, and one task of a function that takes less on average."""
    names = ["load", "price", "price", "price", "sum"]
    needs = [[], [0], [1], [0], [2, 3]]
    told = status([worker(1)], names=("load", "price", "sum"), done=600)
    served.tell(told, graph(names, [4, 4, 4, 4, 4], needs))
    open_view(page, "graphs")
    seen(page.locator("#graphs"), "Longest way: 4 tasks, 30.0 ms, through load → price → sum")
    assert page.locator("#graphs .node.way").count() == 4 and page.locator("#graphs path.way").count() == 3
    page.locator("#graphs .node").nth(3).click()
    seen(page.locator("#graphs"), "7.5 ms of slack")
    page.locator("#graphs .node").nth(2).click()
    seen(page.locator("#graphs"), "on the longest way")
    served.tell(samples([worker(1)], ("price",), first=503, each=1))  # the task with slack has really taken 0.9 s
    served.tell(graph(names, [4, 4, 4, 4, 4], needs, [0, 0, 0, 0, 0]))
    served.tell(graph(names, [4, 4, 4, 4, 2], needs))
    seen(page.locator("#graphs"), "Longest way: 3 tasks, 915 ms")


def test_the_longest_way_through_a_graph_that_is_drawn_in_part(page: Page, served: ServedPage) -> None:
    """What is known of the first four tasks is not asserted of the forty."""
    told = graph(["load", "price", "sum", "price"], [4, 4, 4, 4], [[], [0], [1], [0]])
    (shape,) = told.graphs
    usual = status([worker(1)], names=("load", "price", "sum"), done=600)
    served.tell(usual, replace(told, graphs=(replace(shape, task_count=40),)))
    open_view(page, "graphs")
    seen(page.locator("#graphs"), "4 of 40 tasks are drawn")
    seen(page.locator("#graphs"), "Longest way of the tasks drawn: 3 tasks, 22.5 ms")
    seen(page.locator("#graphs"), "That of the whole graph may be longer")
    page.locator("#graphs .node").nth(1).click()
    seen(page.locator("#graphs"), "on the longest way of the tasks drawn")
    page.locator("#graphs .node").nth(3).click()
    seen(page.locator("#graphs"), "7.5 ms of slack of the tasks drawn")
    served.tell(told)
    seen(page.locator("#graphs"), "Longest way: 3 tasks, 22.5 ms")
    seen(page.locator("#graphs"), "More workers do not make it shorter")


def test_a_graph_of_which_a_part_is_drawn_tells_what_is_left_out(page: Page, served: ServedPage) -> None:
    """Of 5,000 tasks the scheduler lists 1,000: 500 pairs. What fails later takes the place of another one."""
    names = ["load", "fit"] * 500
    needs: list[list[int]] = [[] if number % 2 == 0 else [number - 1] for number in range(1000)]
    states = [4] * 600 + [2] * 4 + [1] * 396
    outcomes = [1 if number == 599 else 0 for number in range(1000)]

    def cut(message: GraphShapes, *, last: int = 1499) -> GraphShapes:
        (shape,) = message.graphs
        ids = shape.ids[:-16] + task(last)
        part = replace(shape, ids=ids, task_count=5000, unfinished_count=3800, failed_count=30, canceled_count=7)
        return replace(message, graphs=(part,))

    served.tell(status([worker(1)]), cut(graph(names, states, needs, outcomes)))
    open_view(page, "graphs")
    boxes, place = page.locator("#graphs .node"), page.locator("#graphs")
    seen(place, "failed at fit: 30 failed or never ran, 7 canceled, 1,163 succeeded, 3,800 unfinished.")
    told = "Of the others: 29 failed or never ran, 7 canceled, 3,400 unfinished, 564 succeeded."
    seen(place, f"1,000 of 5,000 tasks are drawn, and counted in the boxes. {told}")
    assert page.locator("#graphs .graph").get_attribute("aria-label").count(told) == 1  # type: ignore[union-attr]
    assert boxes.count() == 2 and page.locator("#graphs .node.failed").count() == 1
    page.locator("#graphs .graph").press("f")
    seen(place, "fit, 500 tasks: 1 failed, 299 succeeded")
    page.locator("#graphs .graph").press("Enter")
    assert boxes.count() == 1 + 201
    seen(place, "6120636c:1099, failed, needs 1 task of the tasks drawn")
    outcomes[599:] = [0] * 400 + [1]
    served.tell(cut(graph(names, [*states[:-1], 4], needs, outcomes), last=4999))
    seen(place, "3,401 unfinished, 563 succeeded")
    page.get_by_role("button", name="Next failure").click()
    seen(place, "6120636c:4999, failed")


def test_a_failure_is_seen_in_a_group_of_a_thousand(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)]), graph(["load"] * 1000, [4] * 1000, [[]] * 1000, [1] + [0] * 999))
    open_view(page, "graphs")
    seen(page.locator("#graphs .graph"), "1,000 of 1,000, 1 failed")
    widths = page.locator("#graphs .share").evaluate_all("all => all.map((one) => Number(one.getAttribute('width')))")
    assert widths[0] == 6 and 0 < widths[1] <= 144 and sum(widths) <= 150
    edge = page.locator("#graphs .node.failed rect").first.evaluate("one => getComputedStyle(one).strokeWidth")
    assert edge == "3px"
