"""The stack of a running task, taken in its processor: while it computes, waits, or does not answer."""

from __future__ import annotations

import linecache
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest
from tests.support.worker_tasks import begin, wait_and_return

from scaler_protocol.codes import STACK_NO_ANSWER, STACK_TAKEN, STATUS_CANCELED
from scaler_protocol.messages import StackReply, StackRequest
from scaler_worker.channel import RECEIVE_BYTES, SAMPLES, STACK, ReportReader, SignalPage, channel_pair
from scaler_worker.core import stacks
from scaler_worker.processor import ProcessorLoop
from scaler_worker.processor import stacks as texts
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.stacks import INNERMOST, OUTERMOST, TEXT_BYTES, stack_text
from scaler_worker.zygote import SIGNAL_NUMBER

ATTEMPTS = 1_000


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a processor may take long to answer. The agent is forked from here."""
    monkeypatch.setattr(stacks, "ANSWER_SECONDS", 25.0)


def compute(path: str) -> None:
    secret_value = "not to be seen"  # noqa: F841
    with open(path, "w"):
        pass
    while True:
        pass


def compute_in_compiled_code(path: str) -> None:
    with open(path, "w"):
        pass
    deque(repeat(None), 0)


def wait_beside_a_thread(path: str) -> None:
    def beside() -> None:
        time.sleep(300)

    threading.Thread(target=beside, name="helper", daemon=True).start()
    with open(path, "w"):
        pass
    threading.Event().wait(300)


def stack_of(cluster: Any, task: Any, number: int = 7) -> StackReply:
    cluster.send(StackRequest(number, task))
    found: list[StackReply] = []

    def is_answered() -> bool:
        found[:] = [one for one in cluster.messages if isinstance(one, StackReply) and one.request_id == number]
        return bool(found)

    cluster.wait_until(is_answered, "the answer")
    assert found[0].task_id == task
    return found[0]


def stack_when(cluster: Any, task: Any, is_there: Callable[[StackReply], bool]) -> StackReply:
    """The task has told that it begins, and may not have come to where it stays yet."""
    for number in range(ATTEMPTS):
        reply = stack_of(cluster, task, number)
        if is_there(reply):
            break
    return reply


def end(cluster: Any, task: Any) -> None:
    cluster.cancel(task, grace_seconds=0.0)
    assert cluster.wait_results([task])[0].status == STATUS_CANCELED


@pytest.mark.usefixtures("patient")
def test_a_task_that_computes(cluster: Any, start_worker: Any, running_path: str) -> None:
    start_worker(max_processors=1)
    task = begin(cluster, compute, running_path)
    for number in (1, 2):
        reply = stack_of(cluster, task, number)
        assert reply.outcome == STACK_TAKEN
        assert f'File "{__file__}"' in reply.text and "in compute\n" in reply.text
        assert "loop.py" not in reply.text, "the frames below the task are ours"
        assert "secret_value" not in reply.text and "not to be seen" not in reply.text
        assert reply.running_seconds > 0
    end(cluster, task)


@pytest.mark.usefixtures("patient")
def test_a_task_that_waits_and_its_other_threads(cluster: Any, start_worker: Any, running_path: str) -> None:
    start_worker(max_processors=1)
    task = begin(cluster, wait_beside_a_thread, running_path)
    reply = stack_when(cluster, task, lambda reply: ".wait(300)" in reply.text and "sleep(300)" in reply.text)
    assert reply.outcome == STACK_TAKEN
    own, _, other = reply.text.partition("thread helper:")
    assert "thread scaler-" not in reply.text, "threads of ours say nothing about the task"
    assert "threading.Event().wait(300)" in own and "in wait\n" in own
    assert "time.sleep(300)" in other and "in beside\n" in other
    end(cluster, task)


def test_a_task_in_compiled_code_that_does_not_return(cluster: Any, start_worker: Any, running_path: str) -> None:
    start_worker(max_processors=1)
    task = begin(cluster, compute_in_compiled_code, running_path)
    reply = stack_when(cluster, task, lambda reply: reply.outcome != STACK_TAKEN)
    assert (reply.outcome, reply.text) == (STACK_NO_ANSWER, "")
    assert "running" in reply.process and "s of processor time" in reply.process
    end(cluster, task)


@pytest.mark.usefixtures("patient")
def test_a_question_changes_nothing_for_the_task(
    cluster: Any, start_worker: Any, running_path: str, tmp_path: Any
) -> None:
    start_worker(max_processors=1)
    release = tmp_path / "release"
    (task,) = cluster.dispatch(wait_and_return, (str(release), running_path))
    cluster.wait_until(lambda: os.path.exists(running_path), "the task to begin")
    for number in range(20):
        assert stack_of(cluster, task, number).outcome == STACK_TAKEN
    release.touch()
    assert cluster.wait_results([task])[0].loaded == "done"


def test_an_unknown_task(cluster: Any, start_worker: Any) -> None:
    start_worker(max_processors=1)
    cluster.run(int)
    assert stack_of(cluster, b"x" * 16).outcome not in (STACK_TAKEN, STACK_NO_ANSWER)


@pytest.fixture
def agent_page() -> SignalPage:
    return SignalPage(1)


@pytest.fixture
def reports(agent_page: SignalPage) -> Any:
    """What a processor writes when it is signalled, as if it ran task 7."""
    agent_end, processor_end = channel_pair()
    loop = ProcessorLoop(processor_end, agent_page, 0, Housekeeping(60.0, 1 << 30, 0.0))
    before = signal.signal(SIGNAL_NUMBER, loop._on_signal)

    def read(serial: int, running: int = 7) -> list[tuple[int, int, int, bytes]]:
        loop._running = running
        agent_page.write(0, 0, 0, serial)
        signal.raise_signal(SIGNAL_NUMBER)
        try:
            data = agent_end.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        return [(kind, number, amount, value) for kind, _, _, number, amount, _, value in ReportReader().feed(data)]

    with agent_end, processor_end:
        yield read
        signal.signal(SIGNAL_NUMBER, before)


def test_each_question_is_answered_once(reports: Any) -> None:
    ((kind, number, serial, text),) = reports(1)
    assert (kind, number, serial) == (STACK, 7, 1) and b"in read\n" in text
    assert reports(1) == []
    assert len(reports(2)) == 1
    assert reports(3, running=0) == [(STACK, 0, 3, b"")], "between two tasks"


def test_a_question_that_comes_while_another_is_answered(
    reports: Any, monkeypatch: pytest.MonkeyPatch, agent_page: SignalPage
) -> None:
    from scaler_worker.processor import loop

    def ask_again(frame: Any) -> str:
        if agent_page.stack_serial(0) == 1:
            agent_page.write(0, 0, 0, 2)
            signal.raise_signal(SIGNAL_NUMBER)
        return "stack"

    monkeypatch.setattr(loop, "stack_text", ask_again)
    assert reports(1) == [(STACK, 7, 1, b"stack"), (STACK, 7, 2, b"stack")]


def test_a_question_that_comes_while_samples_are_written(agent_page: SignalPage) -> None:
    """The thread that writes them takes no signals, so it must not send itself one."""
    agent_end, processor_end = channel_pair()
    loop = ProcessorLoop(processor_end, agent_page, 0, Housekeeping(60.0, 1 << 30, 0.0))
    before = signal.signal(SIGNAL_NUMBER, loop._on_signal)
    all_signals = signal.valid_signals()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, all_signals)
    sender = threading.Thread(target=loop._send_samples, args=(b"",))
    with agent_end, processor_end:
        try:
            loop._running = 7
            loop._write_lock.acquire()
            sender.start()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            agent_page.write(0, 0, 0, 1)
            signal.raise_signal(SIGNAL_NUMBER)
            loop._write_lock.release()
            sender.join()
            data = agent_end.recv(RECEIVE_BYTES)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.signal(SIGNAL_NUMBER, before)
    assert [kind for kind, *_ in ReportReader().feed(data)] == [SAMPLES, STACK]


def deep(levels: int) -> str:
    import sys

    return deep(levels - 1) if levels else stack_text(sys._getframe())


def test_a_deep_stack_is_cut_in_the_middle() -> None:
    lines = deep(400).splitlines()
    (gap,) = [line for line in lines if "calls in between" in line]
    assert lines.count("    return deep(levels - 1) if levels else stack_text(sys._getframe())") >= INNERMOST - 1
    assert lines.index(gap) < 2 * OUTERMOST + 2
    assert len("\n".join(lines).encode()) <= TEXT_BYTES


def test_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "LINE_CHARACTERS", 100_000)
    monkeypatch.setattr(linecache, "getline", lambda *_: "ü" * 5_000)
    text = deep(200)
    assert len(text.encode()) <= TEXT_BYTES and "left out" in text


def test_what_goes_wrong_is_no_business_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise RecursionError

    monkeypatch.setattr(linecache, "getline", fail)
    assert "RecursionError" in deep(1)
