"""The pictures of scaler_ui in docs/operations, taken anew: `python -m tools.pictures`. Needs Chromium."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.pages import SERVER, ServedPage, function, graph, printed, row, status, worker

from scaler_protocol.messages import Message, SampleBlock, TaskSamples, WorkerEntry

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "operations"
NAMES = ("price", "revalue", "simulate_paths", "load_curve", "fit", "aggregate")
MEANS = dict(zip(NAMES, (0.25, 0.4, 1.4, 0.15, 0.7, 0.3), strict=True))
SECONDS = 90
READY_MILLISECONDS = 500


def main() -> None:
    with sync_playwright() as driver, ServedPage() as large, ServedPage() as small:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tell(large, 1000)
        tell(small, 16)
        shot(browser, large, "overview", 1280, 760).close()
        shot(browser, small, "stream", 1280, 600).close()
        shot(browser, large, "workers", 1280, 560, theme="dark").close()
        page = shot(browser, small, "graphs", 1280, 560, theme="dark", name=None)
        page.locator(".node.dispatched").first.click()
        save(page, "graphs")
        shot(browser, small, "overview", 390, 760, name="phone").close()
        browser.close()


def shot(
    browser: Browser,
    served: ServedPage,
    view: str,
    width: int,
    height: int,
    *,
    theme: str = "light",
    name: str | None = "",
) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
    page.goto(f"{served.url}#/{view}")
    page.locator("#condition.live").wait_for()
    if name is not None:
        save(page, name or view)
    return page


def save(page: Page, name: str) -> None:
    page.wait_for_timeout(READY_MILLISECONDS)  # its frames are drawn when it likes
    page.screenshot(path=FOLDER / f"ui-{name}.png")


def tell(served: ServedPage, count: int) -> None:
    """A minute and a half of a cluster's life, all at once."""
    chance = random.Random(7)
    begun_at = time.time() - SECONDS
    workers = [worker(number, silent_seconds=12.0 if number == 512 else 0.0) for number in range(count)]
    done = 0
    for second in range(SECONDS):
        done += round(count * (20 + 3 * chance.random()) * (1 if second < 60 else 0.8))
        busy = [one for one in workers if chance.random() < 0.98]
        messages: list[Message] = [
            status(busy if second < SECONDS - 1 else workers, sequence=second + 1, done=done,
                   queued=max(0, 1_900 * count - done), names=NAMES),
            printed(f"priced book {second}", second),
        ]  # fmt: skip
        if second == SECONDS - 1:
            messages += [pipeline(), *ran(workers[:24], chance)]
        served.tell(*messages, at=begun_at + second)


def ran(workers: list[WorkerEntry], chance: random.Random) -> Iterator[Message]:
    """What ran in the last half minute, a line for each worker."""
    blocks = []
    for place, one in enumerate(workers):
        rows, at, number = [], 30.0, 10_000 * place
        while at > 0.2:
            name = NAMES[min(5, int(6 * chance.random() ** (0.6 + at / 40)))]
            lasted = min(at, max(0.05, chance.gauss(MEANS[name], MEANS[name] / 4)))
            rows.append(row(number, name, one, at, lasted, is_failed=chance.random() < 0.01))
            at -= lasted + 0.02 + 0.1 * chance.random()
            number += 1
        blocks.append(SampleBlock(one.peer_id, one.name, 0.0, len(rows), b"".join(rows)))
    yield TaskSamples(server_id=SERVER, blocks=tuple(blocks), function_names=tuple(map(function, NAMES)))


def pipeline() -> Message:
    names = ["load_curve"] * 3 + ["price"] * 9 + ["simulate_paths"] * 9 + ["aggregate"] * 3 + ["fit"]
    needs: list[list[int]] = [[], [], []] + [[index // 3] for index in range(9)] + [[3 + index] for index in range(9)]
    needs += [[12 + 3 * index, 13 + 3 * index, 14 + 3 * index] for index in range(3)] + [[21, 22, 23]]
    states = [4] * 3 + [4] * 7 + [2, 1] + [4, 4, 4, 4, 2, 2, 2, 0, 0] + [4, 0, 0] + [0]
    return graph(names, states, needs)


if __name__ == "__main__":
    main()
