"""A recording as one HTML file, opened by a real browser from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scaler.monitoring import Recorder
from scaler.ui import report
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import failed, failures, graph, samples, status, worker
from tests.support.processes import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_BROWSER


def recorded(path: Path, done: int) -> str:
    recorder = Recorder(path)
    them = [worker(1), worker(2)]
    for message in (
        status(them, done=100),
        samples(them, each=3),
        graph(["load", "boom", "sum"], [4, 4, 4], [[], [0], [1]], [0, 1, 6]),
        failures(failed(700)),
        status(them, sequence=2, done=done),
    ):
        recorder.write("any", message)
    recorder.close()
    return str(path)


def test_a_report_of_two_recordings(browser: Browser, tmp_path: Path) -> None:
    text = report.html(recorded(tmp_path / "a.rec", 400), recorded(tmp_path / "b.rec", 800))
    (tmp_path / "a.html").write_text(text, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.set_default_timeout(1000 * WAIT)
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto((tmp_path / "a.html").as_uri())
    seen(page.locator("#condition"), "recording ended")
    seen(page.locator("#facts"), "400")
    seen(page.locator("#use"), "Ran a task")
    for view, words in (
        ("work", "price"),
        ("stream", "Every task that ended in this time"),
        ("tasks", "6 of the last 6 tasks"),
        ("errors", "too large"),
        ("graphs", "failed at boom"),
        ("workers", "2 workers"),
        ("compare", "a.rec"),
    ):
        open_view(page, view)
        seen(page.locator(f"#{view}"), words)
    rows = page.locator("#compare tr", has_text="Tasks that ended")
    assert rows.locator("td").all_inner_texts() == ["Tasks that ended", "400", "800"]
    for hidden in ("Save as a trace", "Why does a task wait?"):
        assert not page.get_by_text(hidden).is_visible(), "what needs a server is not offered"
    open_view(page, "tasks")
    page.locator("#task-table td button").first.click()
    assert page.locator("#task-page").is_visible()
    context.close()
    assert not troubles
