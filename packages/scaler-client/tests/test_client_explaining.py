"""Why a task waits: sentences for people, and the warning that nobody has to ask for."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.support.client_core import SERVER, Told, call, lost, opened, task
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.core.actions import Explained, Send
from scaler.client.core.events import Asked
from scaler.client.futures import explaining
from scaler.client.futures.explaining import sentence
from scaler.client.futures.stacks import stack_of
from scaler_protocol import codes
from scaler_protocol.ids import TaskId, shown_parts, shown_task
from scaler_protocol.messages import NO_TASK, Capability, Explain, Explanation, StackReply, StackRequest, TaskHeader
from scaler_protocol.session import Received

ADDRESS = "tcp://127.0.0.1:2345"
GPU = (Capability("gpu", 2), Capability("linux"))


@pytest.mark.parametrize(
    ("explanation", "capabilities", "words"),
    [
        (None, (), ["not connected", ADDRESS]),
        (Explanation(1, state="queued", recovery_seconds=1.54), (), ["was restarted", "1.5 s more at most"]),
        (Explanation(1, state="queued"), (), ["no worker is connected", ADDRESS]),
        (Explanation(1, state="queued", worker_count=3), GPU, ["no capable worker", "3 workers", "gpu=2, linux"]),
        (Explanation(1, state="queued", worker_count=1, able_count=1), (), ["next in line", "1 of 1 worker "]),
        (
            Explanation(
                1, state="queued", worker_count=3, code_tag="cpython-311", code_tags=("cpython-313", "cpython-312")
            ),
            (),
            ["needs Python 3.11", "sent as bytecode", "the workers have Python 3.12, 3.13"],
        ),
        (
            Explanation(1, state="queued", worker_count=1, code_tag="cpython-311", code_tags=("cpython-39",)),
            GPU,
            ["needs Python 3.11", "have Python 3.9; it also asks for gpu=2, linux"],
        ),
        (
            Explanation(1, state="queued", worker_count=1, code_tag="cpython-311", code_tags=("cpython-311",)),
            GPU,
            ["none of 1 worker offers gpu=2, linux"],
        ),
        (
            Explanation(
                1, state="queued", worker_count=2, code_tag="cpython-311", code_tags=("cpython-311", "cpython-312")
            ),
            GPU,
            ["none of 2 workers offers gpu=2, linux together with Python 3.11"],
        ),
        (Explanation(1, state="queued", starting_count=1), (), ["1 worker that could run it is being started"]),
        (Explanation(1, state="queued", worker_count=3, starting_count=2), GPU, ["2 workers", "are being started"]),
        (
            Explanation(1, state="queued", worker_count=2, able_count=2, trouble="bad: its processors do not start"),
            (),
            ["; one takes no tasks for now, worker bad: its processors do not start"],
        ),
        (
            Explanation(1, state="queued", worker_count=1, able_count=1, starting_count=2),
            (),
            ["1 of 1 worker could run it and are busy; 2 more being started"],
        ),
        (
            Explanation(1, state="queued", ahead_count=1200, worker_count=3, able_count=2),
            (),
            ["behind 1,200 others", "2 of 3 workers"],
        ),
        (Explanation(1, state="waiting", dependency_count=1), (), ["waits for 1 task that"]),
        (
            Explanation(1, state="dispatched", worker="w", is_begun=True, running_seconds=4.26, attempt=2),
            (),
            ["running on worker w for 4.3 s", "attempt 2"],
        ),
        (Explanation(1, state="dispatched", worker="w", attempt=1), (), ["sent to worker w", "not begun"]),
        (
            Explanation(1, task("p"), "dispatched", worker="w", is_begun=True, is_blocked=True, child_count=1200),
            (),
            ["on worker w for 0.0 s", "waits for 1,200 tasks that it has submitted"],
        ),
        (
            Explanation(1, task("p"), "dispatched", worker="w", is_begun=True, is_blocked=True),
            (),
            ["waits to go on: no task that it has submitted is unfinished", "value that is not in the storage"],
        ),
        (
            Explanation(
                1,
                task("p"),
                "dispatched",
                worker="w",
                is_begun=True,
                is_blocked=True,
                child_count=2,
                children=TaskId(b"\1\2\3\4".ljust(8, b".") + (7).to_bytes(8, "little")),
                child_states=b"\1",
            ),
            (),
            ["waits for 2 tasks that it has submitted, such as 01020304:7, which is queued"],
        ),
        (
            Explanation(1, state="dispatched", worker="w", attempt=2, silent_seconds=7.2),
            (),
            ["in attempt 2; this worker has been silent for 7 s"],
        ),
        (
            Explanation(1, state="dispatched", worker="w", attempt=1, silent_seconds=6.2, lost_seconds=53.8),
            (),
            ["silent for 6 s: it counts as lost in 54 s at most, and the task begins again then"],
        ),
        (
            Explanation(1, state="dispatched", worker="w", attempt=2, silent_seconds=6.2, lost_seconds=53.8),
            (),
            ["the task begins again then, unless it has lost too many workers"],
        ),
        (
            Explanation(1, state="dispatched", worker="w", attempt=2, still_seconds=40.2, able_count=2),
            (),
            [
                "had not begun at the last report of that worker, in attempt 2; this worker has ended nothing for ",
                "for 40 s: ",
                "the task goes to another one as soon as one that can run it ends tasks",
            ],
        ),
        (
            Explanation(1, state="dispatched", worker="w", attempt=1, still_seconds=40.2, able_count=1),
            (),
            ["ended nothing for 40 s, and no other one that is connected can run the task"],
        ),
        (Explanation(1, state="canceling", worker="w", lost_seconds=60.0), (), ["being canceled on worker w"]),
        (
            Explanation(1, state="canceling", worker="w", silent_seconds=6.2, lost_seconds=53.8),
            (),
            ["worker w; this worker has been silent for 6 s", "lost in 54 s at most, and the task ends then"],
        ),
        (Explanation(1), (), ["does not have this task"]),
        (Explanation(1, state="from the future"), (), ["does not have this task"]),
    ],
)
def test_sentences(explanation: Explanation | None, capabilities: Sequence[Capability], words: list[str]) -> None:
    told = sentence(explanation, capabilities, ADDRESS)
    assert all(word in told for word in words), told


def test_the_core_asks_and_adds_what_the_task_asked_for() -> None:
    told = Told(is_open=False)
    assert told(Asked(1, task("a"))) == [Explained(1, None)]
    told(opened())
    told.submit(call("a", header=TaskHeader(capabilities=GPU)))
    told.sent()
    assert told(Asked(2, task("a"))) == [Send(Explain(2, task("a")))]
    assert told(Asked(5, NO_TASK, short=(b"head", 7))) == [Send(Explain(5, NO_TASK, b"head", 7))]
    answer = Explanation(2, task("a"), "queued")
    assert told(Received(SERVER, 1, answer)) == [Explained(2, answer, GPU)]
    assert told(Received(SERVER, 2, Explanation(3))) == [Explained(3, Explanation(3))]
    told(lost())
    assert told(Asked(4, task("a"))) == [Explained(4, None)]


def test_explain(client: Client, cluster: FakeCluster) -> None:
    cluster.explain = lambda question: Explanation(question.request_id, question.task_id, "queued", worker_count=2)
    cluster.hold()
    future = client.submit_verbose(abs, (-1,), {}, capabilities={"gpu": 2})
    assert "none of 2 workers offers gpu=2" in client.explain(future)
    dependent = client.submit(abs, future)
    assert "1 of the futures among its arguments" in client.explain(dependent)
    with Client(cluster.address) as other, pytest.raises(ValueError, match="another client"):
        other.explain(future)
    with pytest.raises(TypeError, match="int"):
        client.explain(3)  # type: ignore[arg-type]
    future.cancel()
    assert "canceled" in client.explain(future)
    cluster.is_holding = False
    ended = client.submit(abs, -1)
    ended.result(WAIT)
    assert "has ended" in client.explain(ended)


def test_a_task_that_failed_is_explained_by_its_error(client: Client) -> None:
    """Before its result was read, and afterwards. The scheduler is not asked."""
    failed = client.submit(int, "several\nlines")
    eventually(failed.done, "it has failed")
    told = "it failed after 0.3 s: ValueError: invalid literal for int() with base 10: 'several\\nlines'"
    failed._profile = struct.pack("<QQQ", 300_000_000, 0, 0)
    assert client.explain(failed) == told and client.stack(failed).reason == told
    assert failed.exception(WAIT) is not None
    assert client.explain(failed) == told

    class Unkind(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    failed._exception = Unkind()
    assert client.explain(failed) == "it failed after 0.3 s: Unkind"
    failed._exception = KeyError("first\x1b[31m\nsecond")
    assert client.explain(failed) == "it failed after 0.3 s: KeyError: 'first\\x1b[31m\\nsecond'"


def answered(task_id: TaskId, question: Explain) -> Explanation:
    """As a scheduler does that holds this task, of either form of its id. (SCH-34, MON-43)"""
    is_asked_for = question.task_id == task_id or (question.task_source, question.task_number) == short_of(task_id)
    found = task_id if is_asked_for else TaskId(b"")
    return Explanation(question.request_id, found, "queued" if is_asked_for else "", worker_count=2)


def short_of(task_id: TaskId) -> tuple[bytes, int] | None:
    return shown_parts(shown_task(task_id))


@pytest.mark.parametrize("form", [shown_task, bytes.hex, lambda one: shown_task(one).upper()])
def test_the_id_of_a_task_in_place_of_its_future(
    client: Client, cluster: FakeCluster, form: Callable[[TaskId], str]
) -> None:
    cluster.hold()
    future = client.submit_verbose(abs, (-1,), {}, capabilities={"gpu": 2})
    cluster.explain = lambda question: answered(future.task_id, question)
    cluster.stack = lambda question: replace(RUNS, request_id=question.request_id, task_id=question.task_id)
    assert client.explain(form(future.task_id)) == client.explain(future)
    stack = client.stack(form(future.task_id))
    assert (stack.text, stack.state) == (RUNS.text, "running")
    dependent = client.submit(abs, future)
    assert "1 of the futures among its arguments" in client.explain(form(dependent.task_id))
    assert client.stack(form(dependent.task_id)).state == "waiting"
    other = form(TaskId(task("a")[:8] + (3).to_bytes(8, "little")))
    assert "has no unfinished task of this client with this id" in client.explain(other)
    assert (client.stack(other).text, client.stack(other).state) == ("", "")
    for text in ("", "3", "648752af:", "648752af:x", "649", future.task_id.hex()[:-2]):
        with pytest.raises(ValueError, match="not the id of a task"):
            client.explain(text)


def test_the_short_form_at_an_earlier_scheduler_or_one_that_does_not_answer(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier one does not know the parts of the short form, and tells of any task that no worker can run."""
    cluster.hold()
    future = client.submit(abs, -1)
    short = shown_task(future.task_id)
    cluster.explain = lambda question: Explanation(question.request_id, task("other"), "queued")
    assert "has no unfinished task of this client with this id" in client.explain(short)
    cluster.explain = None
    monkeypatch.setattr(explaining, "ANSWER_SECONDS", 0.05)
    assert "has not answered" in client.explain(short)
    assert "has not answered" in client.stack(short).reason


def test_a_scheduler_that_does_not_answer_is_said_so(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "ANSWER_SECONDS", 0.05)
    cluster.hold()
    assert "has not answered" in client.explain(client.submit(abs, -1))


def test_a_task_that_nobody_can_run_is_warned_of_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(explaining, "LOOK_SECONDS", 0.02)
    stuck, asked = [task("none")], threading.Semaphore(0)

    def explain(question: Explain) -> Explanation:
        assert not question.task_id
        asked.release()
        return Explanation(question.request_id, stuck[0], "queued") if stuck else Explanation(question.request_id)

    def wait_for_looks(count: int) -> None:
        for _ in range(count):
            assert asked.acquire(timeout=WAIT), "the client does not look for what nobody can run"

    cluster.explain = explain
    cluster.hold()
    with Client(cluster.address) as client, caplog.at_level(logging.WARNING, "scaler"):
        client.submit(abs, -1)
        eventually(lambda: len(caplog.records) == 1, "the warning")
        assert "no worker can run it" in caplog.text and "no worker is connected" in caplog.text
        wait_for_looks(8)
        assert len(caplog.records) == 1, "it is said once"
        stuck[0] = task("another")
        eventually(lambda: len(caplog.records) == 2, "the warning of another task")
        stuck.clear()
        wait_for_looks(8)
        client.clear()
        assert len(caplog.records) == 2
        eventually(lambda: client._ready().connection.questions.look_at is None, "an idle client does not ask")


# ------------------------------------------------------------ stacks

RUNS = StackReply(1, task("a"), codes.STACK_TAKEN, "  File 'x.py'\n", "", "w", "dispatched", running_seconds=4.26)
STUCK = replace(RUNS, outcome=codes.STACK_NO_ANSWER, text="", process="its process 7 is running")


@pytest.mark.parametrize(
    ("reply", "state", "words"),
    [
        (RUNS, "running", ["running on worker w for 4.3 s", "x.py"]),
        (replace(RUNS, is_blocked=True), "blocked", ["waiting for tasks that it has submitted, on worker w", "x.py"]),
        (replace(RUNS, state="canceling"), "canceling", ["being canceled on worker w"]),
        (STUCK, "running", ["did not answer within 2 s", "does not let the interpreter go", "process 7 is running"]),
        (replace(STUCK, running_seconds=0.0, process="its worker was lost"), "running", ["its worker was lost"]),
        (StackReply(1, task("a"), codes.STACK_NOT_RUNNING, state="queued"), "queued", ["it is queued"]),
        (StackReply(1, task("a"), codes.STACK_NOT_RUNNING, state="waiting"), "waiting", ["that it depends on"]),
        (StackReply(1, task("a"), codes.STACK_NOT_RUNNING, worker="w"), "ended", ["has ended meanwhile"]),
        (StackReply(1, task("a"), codes.STACK_UNKNOWN), "", ["holds no such task"]),
        (StackReply(1, task("a"), codes.STACK_NOT_ALLOWED), "", ["--monitor-texts"]),
        (StackReply(1, task("a"), codes.STACK_TOO_MANY), "", ["too many"]),
        (StackReply(1, task("a"), codes.STACK_NOT_SUPPORTED, worker="w"), "", ["worker w", "earlier version"]),
        (StackReply(1, task("a"), 999), "", ["999"]),
        ("not connected", "", ["not connected"]),
    ],
)
def test_stacks_for_people(reply: StackReply | str, state: str, words: list[str]) -> None:
    stack = stack_of(reply)
    assert stack.state == state and bool(stack.text) is not bool(stack.reason)
    assert all(word in str(stack) for word in words), str(stack)


def test_the_core_asks_for_a_stack() -> None:
    told = Told(is_open=False)
    assert told(Asked(1, task("a"), wants_stack=True)) == [Explained(1, None)]
    told(opened())
    assert told(Asked(2, task("a"), wants_stack=True)) == [Send(StackRequest(2, task("a")))]
    assert told(Received(SERVER, 1, RUNS)) == [Explained(1, None, (), RUNS)]


def test_stack(client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.stack = lambda question: replace(RUNS, request_id=question.request_id, task_id=question.task_id)
    cluster.hold()
    future = client.submit(abs, -1)
    before = time.time()
    stack = client.stack(future)
    assert (stack.text, stack.worker, stack.state, stack.reason) == (RUNS.text, "w", "running", "")
    assert before <= stack.taken_at <= time.time()
    dependent = client.submit(abs, future)
    waiting = client.stack(dependent)
    assert waiting.state == "waiting" and "1 of the futures among its arguments" in waiting.reason
    with Client(cluster.address) as other, pytest.raises(ValueError, match="another client"):
        other.stack(future)
    with pytest.raises(TypeError, match="stack"):
        client.stack(3)  # type: ignore[arg-type]
    cluster.stack = None
    monkeypatch.setattr(explaining, "ANSWER_SECONDS", 0.05)
    assert "has not answered" in client.stack(future).reason
    future.cancel()
    ended = client.stack(future)
    assert ended.state == "ended" and "canceled" in ended.reason


@pytest.mark.parametrize(
    "explanation",
    [
        Explanation(1, state="dispatched", worker="w", still_seconds=9.9),
        Explanation(1, state="dispatched", worker="w", still_seconds=40.0, is_begun=True, running_seconds=40.0),
        Explanation(1, state="dispatched", worker="w", still_seconds=40.0, silent_seconds=8.0, lost_seconds=52.0),
    ],
    ids=["a moment", "it runs this task", "it is silent"],
)
def test_a_worker_that_ends_nothing_is_told_of_where_it_says_something(explanation: Explanation) -> None:
    assert "ended nothing" not in sentence(explanation, (), ADDRESS)
