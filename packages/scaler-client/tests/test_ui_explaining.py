"""Why a task waits, and how it ended, as the page is answered."""

from __future__ import annotations

import asyncio

from tests.support.pages import failed, failures, samples, task, worker
from tests.support.served import Client, FakeWatcher, told, visited

from scaler.ui.feed import Feed
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Explain, Explanation


def test_a_question_goes_to_the_scheduler_and_its_answer_to_who_asked() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        asking = asyncio.ensure_future(client.get(f"/explain?task={task(7).hex()}"))
        while not watcher.asked:
            await asyncio.sleep(0)
        (question,) = watcher.asked
        assert isinstance(question, Explain) and question.task_id == task(7)
        await told(feed, Explanation(question.request_id + 1, task(8), state="queued"))
        await told(feed, Explanation(question.request_id, task(7), state="queued", function_name="price"))
        answer = await (await asking).json()
        assert answer["task"] == task(7).hex() and answer["function"] == "price" and "queued" in answer["text"]

    visited(visit)


def test_how_a_task_ended_is_told_where_it_was_heard() -> None:
    """The scheduler does not hold it any more, and the page has its failure or its sample. So has a recording."""

    async def visit(client: Client, feed: Feed) -> None:
        await told(feed, failures(failed(1), failed(2, line="")), samples([worker(3)], first=10, each=2))

        async def explained(number: int) -> str:
            asking = asyncio.ensure_future(client.get(f"/explain?task={task(number).hex()}"))
            if feed.watcher is not None:
                while not feed.watcher.asked:
                    await asyncio.sleep(0)
                (question,) = feed.watcher.asked
                feed.watcher.asked.clear()
                await told(feed, Explanation(question.request_id, task(number)))
            answer = await (await asking).json()
            return str(answer["text"])

        for watcher in (None, FakeWatcher()):
            feed.watcher = watcher
            assert await explained(1) == "it failed after 0.5 s on 1|node0|1001: ValueError: too large"
            assert await explained(2) == "it failed after 0.5 s on 1|node0|1001: ValueError"
            assert await explained(11) == "it succeeded after 0.5 s on 3|node0|1003"
        assert await explained(99) == "the scheduler does not hold it: it has ended, or was never submitted"

    visited(visit)


def test_the_scheduler_is_asked_about_a_short_id_that_is_not_shown() -> None:
    """Such as of a queued task of a map, as its future shows it."""

    async def visit(client: Client, feed: Feed) -> None:
        recorded = await (await client.get("/explain?task=6120636c:7")).json()
        assert recorded == {"text": "this is a recording: no scheduler answers"}
        watcher = feed.watcher = FakeWatcher()

        async def explained(found: TaskId) -> str:
            asking = asyncio.ensure_future(client.get("/explain?task=6120636C:7"))
            while not watcher.asked:
                await asyncio.sleep(0)
            question = watcher.asked.pop()
            assert isinstance(question, Explain)
            assert (question.task_id, question.task_source, question.task_number) == (b"", b"a cl", 7)
            await told(feed, Explanation(question.request_id, found, state="queued" if found else ""))
            answer = await (await asking).json()
            return f"{answer.get('task', '')} {answer['text']}"

        assert (await explained(task(7))).startswith(f"{task(7).hex()} it is queued")
        assert "no unfinished task" in await explained(TaskId(b""))
        assert "older" in await explained(task(8)), "a scheduler that does not know short ids tells of another task"
        assert (await client.get("/explain?task=6120636c")).status == 400

    visited(visit)
