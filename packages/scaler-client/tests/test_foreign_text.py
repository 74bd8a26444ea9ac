"""A law of everything that shows what others say: no control character of theirs ever comes out (MON-7)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from conformance.tools.vector_cases.samples import FULL
from tests.support.fake_publisher import FakePublisher
from tests.support.processes import WAIT

from scaler.client.futures.explaining import sentence
from scaler.dump import __main__ as dump
from scaler.explain import __main__ as explain
from scaler.monitoring import ClusterState, Condition, Heard
from scaler.top.board import board_of
from scaler.top.report import as_json, as_text
from scaler.top.screen import View, draw, text_of
from scaler.ui import metrics
from scaler.ui.feed import packed
from scaler.ui.model import Model
from scaler.ui.samples import runs
from scaler.ui.tally import Tally
from scaler.ui.trace import trace_text
from scaler_protocol.health import __main__ as health
from scaler_protocol.messages import (
    Bye,
    ClusterStatus,
    DumpPart,
    Error,
    Explanation,
    Message,
    Reject,
    SnapshotRequest,
    Software,
    TaskLog,
    TaskSamples,
)
from scaler_protocol.process.logs import LineFormatter
from scaler_protocol.session.events import complained
from scaler_protocol.session.events import text_of as session_text

HOSTILE = 'w\x1b[31m\x1b]0;owned\x07\r\n[CRIT] forged\x00\x9b\x7f\u202e\u2028</script>"'
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


def spoiled(record: Any) -> Any:
    """With this text in place of every text in it."""
    if isinstance(record, str):
        return HOSTILE
    if isinstance(record, tuple):
        return tuple(map(spoiled, record))
    if is_dataclass(record) and not isinstance(record, type):
        return replace(record, **{field.name: spoiled(getattr(record, field.name)) for field in fields(record)})
    return record


def sample(kind: type) -> Any:
    return spoiled(next(one for one in reversed(FULL) if isinstance(one, kind)))


STATUS: ClusterStatus = replace(sample(ClusterStatus), request_id=0)
STATE = ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=STATUS)


def clean(text: str, lines: int | None = None) -> None:
    assert not CONTROLS.search(text), f"{CONTROLS.search(text)}: {text!r}"
    assert "[CRIT] forged" not in [line[:13] for line in text.splitlines()], "a line of theirs"
    assert lines is None or len(text.splitlines()) == lines


def page() -> str:
    model = Model(HOSTILE)
    messages = (STATUS, sample(TaskSamples), sample(TaskLog))
    told = model.take(STATE, [Heard("x", one, 1.0) for one in messages], 1.0)
    events = [packed(kind, content).decode() for kind, content in told]
    return "\n".join([*events, json.dumps([model.beginning(), *model.kept_runs()])])


SHOWN: dict[str, Callable[[], str]] = {
    "scaler_top --once": lambda: as_text(STATE),
    "scaler_top --json": lambda: as_json(STATE),
    "scaler_top": lambda: "\n".join(text_of(line) for line in draw(board_of(STATE), View(), 300, 200).lines),
    "scaler_ui": page,
    "/metrics": lambda: metrics.text_of(STATE, Tally()).decode(),
    "scaler_trace": lambda: "".join(trace_text(runs(sample(TaskSamples), 1.0), lambda: HOSTILE)).replace("\n", ""),
    "client.explain": lambda: sentence(sample(Explanation), sample(Explanation).capabilities, "tcp://127.0.0.1:1"),
    "texts of a session": lambda: session_text(Bye(0, HOSTILE)) + session_text(Reject(1, 1, 1, HOSTILE)),
    "a complaint": lambda: str(complained(bytes(16), Error(1, 1, False, HOSTILE, HOSTILE))),  # type: ignore[arg-type]
    "a log": lambda: LineFormatter().format(
        logging.LogRecord("scaler", logging.INFO, "", 1, "%s joined", (HOSTILE,), None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", SHOWN)
def test_nothing_that_is_shown_obeys_a_stranger(where: str) -> None:
    clean(SHOWN[where]())


def test_each_state_of_a_task_is_told_on_one_line() -> None:
    for state in ("waiting", "queued", "dispatched", "canceling", HOSTILE):
        for is_begun in (True, False):
            answer = replace(sample(Explanation), state=state, is_begun=is_begun)
            clean(sentence(answer, answer.capabilities, "tcp://127.0.0.1:1"), 1)


def answering(publisher: FakePublisher) -> None:
    kinds: dict[str, Message] = {"Explain": sample(Explanation), "DumpRequest": DumpPart(0, 0, 1, b'{"a": 1}\n')}

    def answer(question: Message) -> Message | None:
        if isinstance(question, SnapshotRequest):
            return replace(STATUS, request_id=question.request_id)
        found = kinds.get(type(question).__name__)
        return found and replace(found, request_id=question.request_id)  # type: ignore[call-arg,arg-type]

    publisher.answer = answer


def test_commands_print_nothing_that_a_terminal_obeys(
    publisher: FakePublisher, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(publisher)
    task = "00" * 16
    assert explain.main([publisher.address, task]) == 0
    assert dump.main([publisher.address, "-"]) == 0
    health.main([publisher.address, "--worker", "no such worker"])
    out, err = capsys.readouterr()
    clean(out)
    clean(err)


def test_a_server_that_refuses_forges_no_line(publisher: FakePublisher, capsys: pytest.CaptureFixture[str]) -> None:
    publisher.answer = lambda question: Error(13, 1, False, HOSTILE, HOSTILE)
    assert explain.main([publisher.address, "00" * 16, "-t", str(WAIT)]) == 1
    _, err = capsys.readouterr()
    clean(err, 1)


def test_a_server_with_a_hostile_name_is_alive(capsys: pytest.CaptureFixture[str]) -> None:
    publisher = FakePublisher(software=Software(HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    try:
        assert health.main([publisher.address]) == 0
    finally:
        publisher.close()
    out, err = capsys.readouterr()
    clean(out, 1)
    clean(err)
