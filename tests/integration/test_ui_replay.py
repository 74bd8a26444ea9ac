"""A recording in the page, in a real browser: pause, another moment, another speed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.monitoring import Recorder
from tests.integration.test_ui import started
from tests.support.browsers import NEEDS_BROWSER, seen
from tests.support.pages import status, worker
from tests.support.processes import WAIT, Stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_BROWSER

HEAD = struct.Struct("<QHI")
BEGIN_BYTES = len(b"scaler-recording 1\n") + 8


def recorded(path: Path, seconds: int) -> Path:
    """With one worker more each second."""
    recorder = Recorder(path)
    for second in range(seconds):
        recorder.write("status", status([worker(number) for number in range(second + 1)]))
    recorder.close()
    data, at = bytearray(path.read_bytes()), BEGIN_BYTES
    for second in range(seconds):
        _, topic_bytes, envelope_bytes = HEAD.unpack_from(data, at)
        HEAD.pack_into(data, at, second * 1_000_000, topic_bytes, envelope_bytes)
        at += HEAD.size + topic_bytes + envelope_bytes
    path.write_bytes(data)
    return path


def test_a_replay_goes_where_its_slider_is(browser: Browser, stage: Stage, tmp_path: Path) -> None:
    command, url = started(stage, "--replay", str(recorded(tmp_path / "run.rec", 31)))
    context = browser.new_context(viewport={"width": 390, "height": 900})
    context.set_default_timeout(1000 * WAIT)
    page = context.new_page()
    page.goto(url + "#/workers")
    seen(page.locator("#replay-moment"), "of 0:30")
    page.get_by_role("button", name="Pause").and_(page.locator("#replay-go")).click()
    seen(page.locator("#replay-go"), "Play")
    slider = page.get_by_role("slider", name="Time in the recording")
    for key, moment, workers in (("End", "0:30 of", 31), ("Home", "0:00 of", 1), ("PageUp", "0:03 of", 4)):
        slider.press(key)
        seen(page.locator("#replay-moment"), moment)
        seen(page.locator("#worker-count"), f"{workers} worker")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it fits a phone"
    page.get_by_label("Speed").select_option("60")
    page.locator("#replay-go").click()
    seen(page.locator("#worker-count"), "31 workers")
    seen(page.get_by_role("status").first, "recording ended")
    seen(page.locator("#replay-go"), "Play")
    page.locator("#replay-go").click()
    seen(page.get_by_role("status").first, "live")
    context.close()
    assert command.end() == 0
