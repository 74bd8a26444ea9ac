"""The pictures of scaler_ui in docs/operations, taken anew: `python -m tools.pictures`. Needs Chromium."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.pages import (
    SERVER,
    ServedPage,
    failed,
    failures,
    function,
    graph,
    printed,
    row,
    status,
    worker,
)

from scaler_protocol.columns import join_u64
from scaler_protocol.messages import ClusterStatus, FunctionEntry, Message, SampleBlock, TaskSamples, WorkerEntry

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "operations"
NAMES = ("price", "revalue", "simulate_paths", "load_curve", "fit", "aggregate")
MEANS = dict(zip(NAMES, (0.25, 0.4, 1.4, 0.15, 0.7, 0.3), strict=True))
#: what is wrong with some of them, and how often
FAILED = {
    "price": ("builtins.KeyError", "'EUR/TRY'", 9),
    "fit": ("numpy.linalg.LinAlgError", "Singular matrix", 3),
    "load_curve": ("requests.exceptions.ConnectionError", "quotes.example: connection refused", 14),
}
#: of 21 tasks, how many are of each function
SHARES = dict(zip(NAMES, (6, 5, 2, 4, 1, 3), strict=True))
SECONDS = 90
READY_MILLISECONDS = 500
TRACEBACK = """Traceback (most recent call last):
  File "curves.py", line 41, in load_curve
    quotes = session.get(url, timeout=5).json()
  File "http.py", line 17, in get
    raise ConnectionError(f"{host}: connection refused")
requests.exceptions.ConnectionError: quotes.example: connection refused
"""


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
        page = shot(browser, small, "errors", 1280, 560)
        page.locator("#error-tasks td button").first.click()
        page.set_viewport_size({"width": 1280, "height": 700})
        save(page, "task")
        shot(browser, small, "overview", 390, 760, name="phone").close()
        page = shot(browser, small, "work", 1400, 420, name=None)
        them = [worker(number) for number in range(16)]
        for later in (0, 5):  # so that there is a rate
            small.tell(moment(them, 16, SECONDS + later, 19_000 + 257 * later), at=time.time() + later)
        save(page, "functions")
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
            moment(busy if second < SECONDS - 1 else workers, count, second, done),
            printed(f"priced book {second}", second),
        ]  # fmt: skip
        if second == SECONDS - 1:
            messages += [pipeline(), *ran(workers[:24], chance), went_wrong(workers, chance)]
        served.tell(*messages, at=begun_at + second)


def moment(workers: list[WorkerEntry], count: int, second: int, done: int) -> ClusterStatus:
    queued, failed_count = max(0, 1_900 * count - done), sum(one[2] for one in FAILED.values())
    told = status(workers, sequence=second + 1, done=done, queued=queued, names=NAMES)
    known = {"dispatched": 4 * count, "failed": failed_count}
    counts = tuple(replace(one, value=known.get(one.name, one.value)) for one in told.task_counts)
    functions = tuple(cost(one, done, queued, count) for one in told.functions)
    return replace(told, task_counts=counts, functions=functions)


def cost(one: FunctionEntry, done: int, queued: int, count: int) -> FunctionEntry:
    """What a function has cost, by how long its tasks take and how many of all are its."""
    share, mean = SHARES[one.name] / sum(SHARES.values()), MEANS[one.name]
    runs, waiting, bucket = int(done * share), int(queued * share), round(2 * math.log2(mean / 0.0001))
    return replace(
        one,
        submitted_count=runs + waiting + int(4 * count * share),
        dispatched_count=int(4 * count * share),
        success_count=runs - FAILED.get(one.name, ("", "", 0))[2],
        failed_count=FAILED.get(one.name, ("", "", 0))[2],
        queued_seconds=12.0 * runs,
        run_seconds=mean * runs,
        cpu_seconds=0.8 * mean * runs,
        buckets=bytes((bucket - 1, bucket, bucket + 1)),
        bucket_counts=join_u64((runs // 3, runs - runs // 3 - runs // 20, runs // 20)),
    )


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


def went_wrong(workers: list[WorkerEntry], chance: random.Random) -> Message:
    found = []
    for name, (kind, line, count) in FAILED.items():
        for _ in range(count):
            one = failed(chance.randrange(10**6), name, line, at_seconds=300 * chance.random())
            at = chance.choice(workers).name
            found.append(replace(one, type_name=kind, worker=at, argument_bytes=1_800, memory_bytes=21 << 20))
    found.sort(key=lambda one: one.age_seconds, reverse=True)
    account = f"attempt 1 on worker {workers[3].name}: its process was ended by signal 9 (SIGKILL)"
    line, kind = FAILED["load_curve"][1], FAILED["load_curve"][0]
    last = replace(found[-1], function_id=function("load_curve").function_id, type_name=kind, first_line=line)
    begun = last.age_seconds + last.duration_seconds
    last = replace(last, submitted_seconds=begun + 31.4, dispatched_seconds=begun + 0.3)
    found[-1] = replace(last, attempt=2, accounts=(account,), text=TRACEBACK)
    return replace(failures(*found), function_names=tuple(map(function, NAMES)))


def pipeline() -> Message:
    names = ["load_curve"] * 3 + ["price"] * 9 + ["simulate_paths"] * 9 + ["aggregate"] * 3 + ["fit"]
    needs: list[list[int]] = [[], [], []] + [[index // 3] for index in range(9)] + [[3 + index] for index in range(9)]
    needs += [[12 + 3 * index, 13 + 3 * index, 14 + 3 * index] for index in range(3)] + [[21, 22, 23]]
    states = [4] * 3 + [4] * 7 + [2, 1] + [4, 4, 4, 4, 2, 2, 2, 0, 0] + [4, 0, 0] + [0]
    keys = [f"{name}-{names[:place].count(name) + 1}" for place, name in enumerate(names)]
    return graph(names, states, needs, keys=keys)


if __name__ == "__main__":
    main()
