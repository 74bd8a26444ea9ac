"""scaler_top and scaler_explain as commands: what they print and how they end, and the keys of the terminal."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.support.fake_publisher import FakePublisher
from tests.support.waiting import WAIT, eventually

from scaler.explain import __main__ as explain
from scaler.monitoring import ClusterState, Condition, Heard
from scaler.top import __main__ as top
from scaler.top.orders import Orders
from scaler.top.screen import text_of
from scaler.top.terminal import Terminal
from scaler_protocol.codes import (
    CONTROL_CANCEL_TASK,
    CONTROL_DONE,
    CONTROL_DRAIN_WORKER,
    CONTROL_NO_OPERATOR,
    ROLE_CLIENT,
    STACK_TAKEN,
    UNKNOWN_MESSAGE,
)
from scaler_protocol.ids import PeerId, TaskId, new_peer_id, shown_task
from scaler_protocol.messages import (
    NO_TASK,
    Capability,
    ClientEntry,
    ClusterStatus,
    Control,
    ControlReply,
    Count,
    Error,
    Explain,
    Explanation,
    Message,
    ProcessorStatus,
    StackReply,
    StackRequest,
    WorkerEntry,
    WorkerStatus,
)

STATUS = ClusterStatus(
    sequence=1,
    server_id=new_peer_id(),
    task_counts=(Count("queued", 3),),
    workers=tuple(WorkerEntry(new_peer_id(), f"w{number}") for number in range(100)),
)
SILENT_ADDRESS = "tcp://127.0.0.1:9"
TASK = TaskId(bytes(range(16)))


@pytest.fixture
def monitor(publisher: FakePublisher) -> str:
    """A scheduler that publishes the same again and again."""
    publisher.repeat = STATUS
    return publisher.address


def test_once(monitor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main([monitor, "--once"]) == 0
    printed = capsys.readouterr().out
    assert "Total 100 worker(s)" in printed and "w99" in printed


def test_json(monitor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main([monitor, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["tasks"] == {"queued": 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([SILENT_ADDRESS, "--once", "-t", "0.2"], "nothing has answered at"),
        (
            ["ipc:///tmp/127.0.0.1_9_monitor", "--json", "-t", "0.2"],
            "nothing has answered at ipc:///tmp/127.0.0.1_9_monitor",
        ),
        ([SILENT_ADDRESS], "use --once, --json or --record"),
        (["8516", "--once"], "8516"),
        ([SILENT_ADDRESS, "--record", "/no/such/folder/file"], "cannot be opened"),
        ([SILENT_ADDRESS, "--once", "--record", "file"], "--record goes on until it is ended"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top.main(arguments) in (1, 2)
    told = capsys.readouterr()
    assert words in told.err and told.err.startswith("scaler_top: error: ")
    assert told.err.count("\n") == 1 and not told.out


class Screen80(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=24, columns=80)


class Still:
    """A source in which nothing happens but what the test lets happen."""

    def __init__(self) -> None:
        self.state = ClusterState(SILENT_ADDRESS, Condition.LIVE, status=STATUS)
        self.changed = threading.Event()
        self.is_closed = False

    def poll(self, seconds: float) -> list[Heard]:
        self.changed.wait(seconds)
        return []

    def ask(self, message: Message) -> None:
        raise AssertionError("a display asks nothing")

    def close(self) -> None:
        self.is_closed = True


def first_worker(lines: list[str]) -> str:
    """The one below the heading."""
    below = [after for before, after in pairwise(lines) if "agt_cpu agt_rss" in before]
    return below[0].split()[0] if below else ""


def test_keys_sort_scroll_and_quit() -> None:
    source = Still()
    with create_pipe_input() as keys:
        terminal = Terminal(source, keys, Screen80())
        thread = threading.Thread(target=terminal.run)
        thread.start()

        def shows(what: str, is_so: Callable[[list[str]], bool]) -> None:
            eventually(lambda: is_so([text_of(line).strip() for line in terminal._screen.lines]), what)

        try:
            shows("it sorts by cpu", lambda lines: any("[cpu]" in line for line in lines))
            keys.send_text("n")
            shows("worker 0 is the first", lambda lines: first_worker(lines) == "w0")
            keys.send_text("n")
            shows("worker 99 is the first", lambda lines: first_worker(lines) == "w99")
            keys.send_text("\x1b[F")  # end
            shows("worker 0 is the last", lambda lines: lines[-1].startswith("w0 "))
            keys.send_text("t")
            shows("the upper part is hidden", lambda lines: not any("task_manager" in line for line in lines))
            source.state = ClusterState(
                SILENT_ADDRESS, Condition.SILENT, "it has not been heard for 4 s", status=STATUS
            )
            source.changed.set()
            shows("it is silent", lambda lines: "it has not been heard for 4 s" in lines)
        finally:
            keys.send_text("q")
            thread.join(WAIT)
    assert not thread.is_alive() and source.is_closed


class Busy(Still):
    """A cluster of one worker that runs a task, of which the scheduler says whose function it is."""

    def __init__(self) -> None:
        super().__init__()
        processor = ProcessorStatus(process_id=71, state=2, task_id=TASK)
        one = WorkerEntry(new_peer_id(), "alpha", status=WorkerStatus(processors=(processor,)))
        other = WorkerEntry(new_peer_id(), "beta")
        status = ClusterStatus(server_id=new_peer_id(), uptime_seconds=1.0, workers=(one, other))
        self.state = ClusterState(SILENT_ADDRESS, Condition.LIVE, status=status)
        self.asked: list[Explain] = []
        self.heard: list[Heard] = [Heard("status", status, 0.0)]

    def poll(self, seconds: float) -> list[Heard]:
        self.changed.wait(seconds)
        heard, self.heard = self.heard, []
        return heard

    def ask(self, message: Message) -> None:
        assert isinstance(message, Explain)
        self.asked.append(message)
        self.heard.append(Heard("snapshot", Explanation(message.request_id, TASK, function_name="price"), 0.0))


def test_a_worker_is_opened_searched_for_and_left() -> None:
    source = Busy()
    with create_pipe_input() as keys:
        terminal = Terminal(source, keys, Screen80())
        thread = threading.Thread(target=terminal.run)
        thread.start()

        def shows(what: str, is_so: Callable[[str], bool]) -> None:
            eventually(lambda: is_so("\n".join(map(text_of, terminal._screen.lines))), what)

        try:
            shows("both workers", lambda text: "alpha" in text and "beta" in text)
            keys.send_text("/ALq")
            shows("q is a letter of the filter", lambda text: "/ALq_" in text and "alpha" not in text)
            keys.send_text("\x7f\r")
            shows("one worker", lambda text: "alpha" in text and "beta" not in text)
            keys.send_text("\r")
            shows("its processor, and whose task it runs", lambda text: "71 running" in text and "price" in text)
            assert len(source.asked) == 1 and source.asked[0].task_id == TASK, "asked once, and only while it is open"
            keys.send_text("\x1b")
            shows("the table again", lambda text: "/AL" in text and "71 running" not in text)
            keys.send_text("\x1b")
            shows("all workers", lambda text: "beta" in text)
            keys.send_text("\t")
            shows("functions", lambda text: "[functions]" in text)
            keys.send_text("?")
            shows("help", lambda text: text.startswith("Keys"))
            keys.send_text("q")
            shows("any key closes the help", lambda text: "[functions]" in text)
            keys.send_text("p")
            shows("it is paused", lambda text: "paused" in text)
            keys.send_text("\x1b")
            shows("workers", lambda text: "alpha" in text)
        finally:
            keys.send_text("q")
            thread.join(WAIT)
    assert not thread.is_alive()


class Obedient(Busy):
    """Its scheduler does what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[Control] = []

    def ask(self, message: Message) -> None:
        if not isinstance(message, Control):
            super().ask(message)
            return
        self.orders.append(message)
        outcome = CONTROL_DONE if message.action == CONTROL_DRAIN_WORKER else CONTROL_NO_OPERATOR
        self.heard.append(Heard("snapshot", ControlReply(message.request_id, outcome, 1), 0.0))


def test_orders_are_given_after_a_question() -> None:
    source = Obedient()
    with create_pipe_input() as keys:
        terminal = Terminal(source, keys, Screen80())
        thread = threading.Thread(target=terminal.run)
        thread.start()

        def has(words: tuple[str, ...]) -> bool:
            text = " ".join(" ".join(map(text_of, terminal._screen.lines)).split())
            return all(word in text for word in words)

        def shows(*words: str) -> None:
            eventually(lambda: has(words), " and ".join(words))

        try:
            shows("alpha", "beta")
            keys.send_text("jD")
            shows("let worker alpha finish and leave? y: yes, any other key: no")
            keys.send_text("q")
            shows("nothing was done")
            assert not source.orders
            keys.send_text("Dy")
            shows("the worker leaves when what it runs has ended, after 60 s at the latest")
            keys.send_text("X648752af:9x\x7f\r")
            shows("cancel task", "of price? y: yes")
            keys.send_text("y")
            shows("nothing was done: the ticket in use is not an operator's")
            keys.send_text("X\x1b")
            shows("alpha", "beta")
        finally:
            keys.send_text("q")
            thread.join(WAIT)
    assert not thread.is_alive()
    drained, canceled = source.orders
    assert source.state.status is not None and drained.subject == source.state.status.workers[0].peer_id
    assert (drained.action, drained.grace_seconds) == (CONTROL_DRAIN_WORKER, 60.0)
    assert (canceled.action, canceled.subject, canceled.grace_seconds) == (CONTROL_CANCEL_TASK, TASK, 1.0)


CLIENT = PeerId(bytes(range(16, 32)))
WITH_A_CLIENT = ClusterStatus(clients=(ClientEntry(CLIENT),))


@pytest.mark.parametrize(
    ("typed", "subject", "words"),
    [
        (CLIENT.hex()[:8], CLIENT, f"all unfinished tasks of client {CLIENT.hex()[:8]}?"),
        (TASK.hex().upper(), TASK, "cancel task "),
        ("nobody\x1b", None, "no task and no client is called nobody"),
        ("", None, ""),
    ],
)
def test_what_is_named_to_be_canceled(typed: str, subject: bytes | None, words: str) -> None:
    orders = Orders(itertools.count(1))
    orders.cancel()
    for letter in typed:
        orders.type(letter)
    assert orders.entered(WITH_A_CLIENT) is None
    assert words in orders.line and orders.is_asking == (subject is not None)
    order = orders.answered(is_yes=True)
    assert subject is None or (isinstance(order, Control) and order.subject == subject)


def test_a_scheduler_that_does_not_know_the_task_or_the_order() -> None:
    orders = Orders(itertools.count(1))
    orders.cancel()
    orders.type("648752af:9")
    question = orders.entered(None)
    assert isinstance(question, Explain) and question.task_number == 9
    orders.heard(Explanation(question.request_id + 1, TASK))
    orders.heard(Explanation(question.request_id, NO_TASK))
    assert orders.line == "nothing was done: the scheduler has no unfinished task of this id" and not orders.is_asking
    orders.drain(WorkerEntry(new_peer_id(), "a\x1b[2J"))
    assert "\x1b" not in orders.line
    assert orders.answered(is_yes=True) is not None
    orders.heard(Error(UNKNOWN_MESSAGE, 1, False, "there is no such message"))
    assert "perhaps because it is older: there is no such message" in orders.line


# ------------------------------------------------------------ scaler_explain


def test_sentences_from_outside() -> None:
    queued = Explanation(1, TASK, "queued", worker_count=2, capabilities=(Capability("gpu", 2),), function_name="price")
    told = explain.told(queued, SILENT_ADDRESS)
    assert told.startswith("price: it is queued") and "none of 2 workers offers gpu=2" in told
    assert "the task has ended, or was never submitted there" in explain.told(Explanation(1, TASK), SILENT_ADDRESS)


@pytest.mark.parametrize("task", ["", "12", "zz" * 16, "\x1b[2J"])
def test_what_is_no_task(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main([SILENT_ADDRESS, task]) == 2
    told = capsys.readouterr().err
    assert "32 hexadecimal digits" in told and "\x1b" not in told


def test_a_short_form_and_a_stack(publisher: FakePublisher, capsys: pytest.CaptureFixture[str]) -> None:
    task_id = TaskId(b"srcerand" + (9).to_bytes(8, "little"))

    def answer(question: Message) -> Message | None:
        if isinstance(question, Explain):
            assert (question.task_id, question.task_source, question.task_number) == (b"", b"srce", 9)
            return Explanation(question.request_id, task_id, "dispatched", worker="w", is_begun=True)
        if question != StackRequest(1, task_id):
            return None
        return StackReply(1, task_id, STACK_TAKEN, "  File \x1b[2J\n    line\n", "", "w", "dispatched")

    publisher.answer = answer
    assert explain.main([publisher.address, shown_task(task_id)]) == 0
    assert "running on worker w" in capsys.readouterr().out
    assert explain.main([publisher.address, shown_task(task_id).upper(), "--stack"]) == 0
    told = capsys.readouterr().out
    assert "\n  File ?[2J\n    line\n" in told
    publisher.answer = lambda question: Explanation(1, TASK, "queued") if isinstance(question, Explain) else None
    assert explain.main([publisher.address, shown_task(task_id)]) == 1
    assert "give all 32 digits" in capsys.readouterr().err


def test_nobody_explains(monitor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main([SILENT_ADDRESS, TASK.hex(), "-t", "0.2"]) == 1
    assert "nothing has answered at" in capsys.readouterr().err
    assert explain.main([monitor, TASK.hex(), "-t", "0.5"]) == 1
    assert "has not answered within 0.5 s" in capsys.readouterr().err


def test_a_question_that_is_refused_does_not_wait(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakePublisher(roles=(ROLE_CLIENT,))
    began_at = time.monotonic()
    assert explain.main([server.address, "00" * 16, "--timeout", str(WAIT)]) == 1
    assert time.monotonic() - began_at < WAIT / 2
    server.close()
    assert "a scheduler does not talk to a monitor" in capsys.readouterr().err
