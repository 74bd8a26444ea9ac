"""A million tasks, as the page shows them: samples of a scheduler's core, the page's server, and a real browser.

What is counted is bytes, rows and kept objects. Nothing here depends on how fast a machine is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.ui.feed import packed
from scaler.ui.model import RUNS_KEPT, RUNS_KEPT_BYTES, Model
from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.messages import Hello, SampleTasks, TaskSamples, WorkerOffer, WorkerStatus
from scaler_protocol.session import Opened
from scaler_scheduler.core import Send
from scaler_scheduler.core.watching import sampling
from tests.support.browsers import NEEDS_BROWSER, open_view, seen
from tests.support.pages import ServedPage, heard, row, status, worker
from tests.support.scheduler_story import WELCOME, Story, peer

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORKERS = 20
SECONDS = 100
PER_SECOND = 10_000
TASKS = SECONDS * PER_SECOND
BYTES_PER_SECOND = 400_000
"""Of one page, before it is compressed: some 130 for each of 2,000 samples."""
ROWS_SHOWN = 200


def publications() -> Iterator[TaskSamples]:
    """One for each second. Workers tell of all their tasks in every second heartbeat, and describe as many as they are
    asked for."""
    story = Story()
    for name in range(WORKERS):
        hello = Hello(1, 1, ROLE_WORKER, peer(f"w{name}"), worker=WorkerOffer(f"w{name}", (), 10, 1))
        story.handle(Opened(peer(f"w{name}"), hello, replace(WELCOME, features=("samples",))))
    story.core.watch(tasks=True, logs=False)
    (limit,) = {
        one.message.sample_limit
        for one in story.actions()
        if isinstance(one, Send) and isinstance(one.message, SampleTasks)
    }
    each = 2 * PER_SECOND // WORKERS
    sampled = min(limit, each)
    entry = worker(1)
    for second in range(SECONDS):
        for name in range(second % 2, WORKERS, 2):
            first = (second * WORKERS + name) * each
            rows = b"".join(row(first + number, "price", entry, 0.9, 0.001) for number in range(sampled))
            story.receive(f"w{name}", WorkerStatus(ended_count=each, samples=rows))
        story.now += 1.0
        yield story.core.task_samples(story.now)


def test_a_million_tasks_are_told_within_bounds() -> None:
    """Of each second the page is told a sample; of all of them the last are kept; and how many there were is exact."""
    model = Model("here")
    model.take(*heard(status([worker(1)])), 0.0)
    small = len(packed("beginning", model.beginning()))
    for second, message in enumerate(publications()):
        state, told = heard(message, at=1000.0 + second)
        events = [(kind, content) for kind, content in model.take(state, told, 1000.0 + second) if kind == "tasks"]
        ((kind, content),) = events
        assert len(content["runs"]) <= sampling.SAMPLES_PER_SECOND
        assert len(packed(kind, content)) <= BYTES_PER_SECOND
    assert (model.sampled_count, model.ended_count) == (SECONDS * sampling.SAMPLES_PER_SECOND, TASKS)
    assert len(model.runs) <= RUNS_KEPT
    _, texts = model.runs.read(0, model.runs.end, 10 * RUNS_KEPT_BYTES)
    assert sum(map(len, texts)) <= RUNS_KEPT_BYTES
    assert len(packed("beginning", model.beginning())) == small, "what a page needs at once says nothing of tasks"
    past = model.past()
    assert past["runs"] == len(model.runs) and sum(share[2] for share in past["shares"]) == TASKS


@NEEDS_BROWSER
def test_a_page_stays_small_while_a_million_tasks_end(page: Page, served: ServedPage) -> None:
    served.tell(status([worker(1)], done=TASKS))
    open_view(page, "tasks")
    debugger = page.context.new_cdp_session(page)
    kept: list[int] = []
    for second, message in enumerate(publications(), 1):
        served.tell(message)
        if second % 10 == 0:  # a page that reads slower than that would be told less
            ended = f"{second * sampling.SAMPLES_PER_SECOND:,} of {second * PER_SECOND:,} that ended"
            seen(page.locator("#task-count"), f"of the last 20,000 tasks; a sample, {ended}")
        if second in (60, SECONDS):
            debugger.send("HeapProfiler.collectGarbage")
            kept.append(debugger.send("Runtime.getHeapUsage")["usedSize"])
    assert page.locator("#task-table tbody tr").count() == ROWS_SHOWN
    assert kept[1] - kept[0] < 4_000_000, "80,000 tasks more have taken the place of others"
    seen(page.locator("#condition"), "live")
