"""Why a task waits, and how it ended, as the page is answered."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.pages import failed, failures, samples, status, task, worker
from tests.support.served import Client, FakeWatcher, told, visited

from scaler.explain.__main__ import told as explained
from scaler.ui.feed import Feed
from scaler.ui.running import ASKED_AT_ONCE, NAMED, RunningNames
from scaler_protocol.codes import STATUS_FAILED, STATUS_SUCCESS
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.messages import Explain, Explanation, TaskFailure, WorkerEntry


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


RECORD = TaskFailure(
    task(7), ObjectId(bytes(16)), PeerId(b"client".ljust(16, b".")), "ana", "w1", STATUS_SUCCESS, 3,
    accounts=("w9: connection closed", "attempt 2 on w9: exited with code 9"), age_seconds=2.0, duration_seconds=0.5,
    cpu_seconds=0.25, memory_bytes=3 << 20, argument_bytes=2048, parent_task=task(4),
)  # fmt: skip


def test_a_page_is_told_what_the_scheduler_knows_of_a_task() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()

        async def answered(explanation: Explanation) -> dict[str, Any]:
            asking = asyncio.ensure_future(client.get(f"/explain?task={task(7).hex()}"))
            while not watcher.asked:
                await asyncio.sleep(0)
            (question,) = watcher.asked
            watcher.asked.clear()
            await told(feed, replace(explanation, request_id=question.request_id, task_id=task(7)))
            found: dict[str, Any] = await (await asking).json()
            return found

        ended = await answered(Explanation(0, function_name="price", record=RECORD))
        facts = ended["facts"]
        assert ended["text"].startswith("it succeeded after 0.5 s on w1 in attempt 3 (earlier: w9: connection closed;")
        assert (facts["status"], facts["user"], facts["client"]) == ("success", "ana", RECORD.client_id.hex()[:8])
        assert (facts["cpu"], facts["arguments"], facts["attempt"]) == (0.25, 2048, 3)
        assert (facts["accounts"], facts["parent"]) == (list(RECORD.accounts), task(4).hex())
        assert (facts["submitted"], facts["ready"], facts["dispatched"]) == (0, 0, 0), "an earlier scheduler"
        running = Explanation(
            0, state="dispatched", worker="w2", child_count=300, record=RECORD, children=task(8), child_states=b"\1"
        )
        facts = (await answered(running))["facts"]
        assert (facts["status"], facts["worker"], facts["childCount"]) == ("dispatched", "w2", 300)
        assert facts["children"] == [{"task": task(8).hex(), "state": "queued"}]
        assert "lasted" not in facts and "at" not in facts, "it has not ended"
        assert "begun" not in facts
        timed = replace(RECORD, submitted_seconds=9.0, ready_seconds=7.0, dispatched_seconds=4.0)
        begun = replace(running, record=timed, is_begun=True, running_seconds=1.0)
        facts = (await answered(begun))["facts"]
        moments = [facts[name] for name in ("submitted", "ready", "dispatched", "begun")]
        assert [after - facts["submitted"] for after in moments] == pytest.approx([0.0, 2.0, 5.0, 8.0])
        assert (await answered(Explanation(0, state="queued")))["facts"] == {}, "an earlier scheduler does not tell"

    visited(visit)


def test_scaler_explain_tells_how_a_task_ended() -> None:
    failed_record = replace(
        RECORD, status=STATUS_FAILED, attempt=1, accounts=(), type_name="builtins.ValueError", first_line="no \x1b[31m"
    )
    answer = Explanation(1, task(7), function_name="price", record=failed_record)
    assert explained(answer, "tcp://s:1") == "price of ana: it failed after 0.5 s on w1: ValueError: no \\x1b[31m"
    of_graph = replace(answer, record=replace(failed_record, key="('price', 7)"))
    assert explained(of_graph, "tcp://s:1").startswith("('price', 7) (price) of ana: it failed")
    unnamed = Explanation(1, task(7), "queued", record=TaskFailure(task(7), key="load-1"))
    assert explained(unnamed, "tcp://s:1").startswith("load-1: it is queued")
    assert "does not have this task" in explained(Explanation(1, task(7)), "tcp://s:1")


def test_scaler_explain_tells_how_long_a_task_has_waited() -> None:
    timed = replace(RECORD, attempt=1, accounts=(), submitted_seconds=20.0, dispatched_seconds=15.0)
    after_others = replace(timed, ready_seconds=19.5)

    def told(record: TaskFailure, state: str = "", **other: Any) -> str:
        return explained(Explanation(1, task(7), state, record=record, **other), "tcp://s:1").rpartition("; ")[2]

    since = "it was submitted 20.0 s ago"
    assert told(timed) == f"{since}, and waited 5.0 s in the queue and 12.5 s at the worker"
    waits = "500.0 ms for other tasks, 4.5 s in the queue and 12.5 s at the worker"
    assert told(after_others) == f"{since}, and waited {waits}".replace("500.0 ms", "0.5 s")
    assert told(replace(timed, duration_seconds=0.0)) == f"{since}, and waited 5.0 s in the queue", (
        "nothing was measured"
    )
    assert told(replace(timed, attempt=2)) == f"{since}, and waited 12.5 s at the worker", "an attempt was before"
    early = replace(timed, dispatched_seconds=2.4999, duration_seconds=0.5)
    assert told(early) == f"{since}, and waited 17.5 s in the queue", "by the clock of the worker it began before"
    running = {"worker": "w1", "is_begun": True, "running_seconds": 14.0}
    assert told(timed, "dispatched", **running) == f"{since}, and waited 5.0 s in the queue and 1.0 s at the worker"
    assert told(timed, "dispatched") == f"{since} and dispatched 15.0 s ago, and waited 5.0 s in the queue"
    queued = replace(timed, dispatched_seconds=0.0)
    assert told(queued, "queued") == told(queued, "waiting") == since
    assert told(replace(queued, ready_seconds=18.0), "queued") == f"{since}, and waited 2.0 s for other tasks"
    assert "submitted" not in told(replace(timed, submitted_seconds=0.0)), "an earlier scheduler does not tell"


def busy(number: int, seconds: float) -> WorkerEntry:
    one = worker(number)
    processor = replace(one.status.processors[0], task_id=task(number), running_seconds=seconds)
    return replace(one, status=replace(one.status, processors=(processor,)))


def test_functions_of_tasks_that_run_long_are_asked_for_once() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        running = [busy(7, 3.0), busy(8, 0.4), busy(9, 60.0)]
        await told(feed, status(running))
        assert not watcher.asked, "no page is open"
        assert feed.open() is not None
        await told(feed, status(running, sequence=2))
        assert [one.task_id for one in watcher.asked if isinstance(one, Explain)] == [task(9), task(7)]
        # The answers may come after the next status.
        await told(feed, status(running, sequence=3))
        await told(
            feed, *(Explanation(one.request_id, one.task_id, function_name="price") for one in watcher.asked[1:])
        )
        await told(feed, status(running, sequence=4))
        assert len(watcher.asked) == 2
        assert feed.model.status["running"] == {task(7).hex(): "price"}
        await told(feed, status([busy(9, 61.0)], sequence=5))
        assert set(feed.model.running.names) == {task(9)}, "ended tasks are forgotten"

    visited(visit)


def test_few_functions_are_asked_for_at_a_time() -> None:
    names, running = RunningNames(), status([busy(number, 2.0 + number) for number in range(NAMED + 50)])
    asked = [names.wanted(running) for _ in range(20)]
    assert asked[0] == [task(number) for number in range(NAMED + 49, NAMED + 49 - ASKED_AT_ONCE, -1)]
    assert sum(map(len, asked)) == NAMED == len(names.names)
