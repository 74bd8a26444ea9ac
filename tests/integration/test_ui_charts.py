"""Charts and the task stream of scaler_ui in a real browser: which time is drawn, how high, and what stands still."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scaler_protocol.ids import PeerId
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import SERVER, ServedPage, samples, status, worker

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER
NEXT_SERVER = PeerId(b"its successor...")

#: Whether the line of the scheduler's memory, which is green, is drawn at these shares of the width.
ARE_DRAWN = """shares => {
  const canvas = document.querySelector('#chart-memory canvas'), { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height), side = 4 * width / canvas.clientWidth;
  const isGreen = (i) => data[i + 3] > 99 && data[i + 1] > data[i] + 40 && data[i + 1] > data[i + 2] + 20;
  return shares.map((share) => {
    const x = Math.round(side + (width - 2 * side) * share);
    return [...Array(height).keys()].some((y) => isGreen(4 * (y * width + x)));
  });
}"""


@pytest.mark.parametrize("server", [SERVER, NEXT_SERVER], ids=["a silence", "another scheduler"])
def test_no_line_is_drawn_across_what_is_not_known(page: Page, served: ServedPage, server: PeerId) -> None:
    """41 points, a second apart; the second half is of another scheduler, or comes 40 seconds later."""
    silence = 40 if server == SERVER else 0
    for number in range(41):
        told = status([], sequence=number + 1)
        is_first = number <= 20
        served.tell(
            told if is_first else replace(told, server_id=server), at=1_000.0 + number + (0 if is_first else silence)
        )
    page.reload()
    seen(page.locator("#chart-memory"), "scheduler 180.0 MiB")
    length = 40 + silence
    before, unknown, after = 10.5, 20.5 + silence / 2, 30.5 + silence
    assert page.evaluate(ARE_DRAWN, [at / length for at in (before, unknown, after)]) == [True, False, True]


def test_charts_show_as_many_minutes_as_are_chosen(page: Page, served: ServedPage) -> None:
    for number in range(15):
        served.tell(status([], sequence=number + 1), at=1_000.0 + 59 * number)
    page.reload()
    canvas, since = page.locator("#chart-memory canvas"), {}
    seen(page.locator("#facts"), "Workers")
    for minutes in ("15", "5", "1"):
        page.locator("#chart-minutes").select_option(minutes)
        label = canvas.get_attribute("aria-label") or ""
        found = re.match(r"since ([\d:]+)", label)
        since[minutes] = found and found[1]
    shown = "at => new Date(1000 * at).toLocaleTimeString([], { hour12: false })"
    assert since == {
        minutes: page.evaluate(shown, 1_000.0 + 59 * first) for minutes, first in (("15", 0), ("5", 9), ("1", 13))
    }


def test_next_to_no_load_looks_like_it(page: Page, served: ServedPage) -> None:
    canvas = page.locator("#chart-cpu canvas")
    for sequence, cpu, highest in ((1, 0.004, "0.10"), (2, 0.31, "0.31")):
        served.tell(replace(status([], sequence=sequence), cpu=cpu))
        seen(page.locator("#chart-cpu"), f"scheduler {cpu:.2f}")
        assert (canvas.get_attribute("aria-label") or "").endswith(f"highest: {highest}")


def test_a_click_on_a_bar_stops_the_stream(page: Page, served: ServedPage) -> None:
    """What was chosen must not walk out of sight; the bar is of the last second, of thirty that are shown."""
    served.tell(status([worker(0)]), samples([worker(0)], each=1))
    open_view(page, "stream")
    seen(page.locator("#stream-note"), "1 bar here")
    canvas, follow = page.locator("#stream-canvas"), page.get_by_role("button", name="Follow")
    box = canvas.bounding_box()
    assert box is not None
    bar, nothing = {"x": box["width"] - 20, "y": 30}, {"x": box["width"] / 2, "y": 60}
    canvas.click(position=nothing)  # type: ignore[arg-type]
    canvas.hover(position=bar)  # type: ignore[arg-type]
    seen(page.locator("#stream-detail"), "price, success, ran 900 ms")
    assert follow.get_attribute("aria-pressed") == "true", "to look at a bar stops nothing"
    canvas.click(position=bar)  # type: ignore[arg-type]
    assert follow.get_attribute("aria-pressed") == "false"
