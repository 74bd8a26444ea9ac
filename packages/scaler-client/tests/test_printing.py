"""What tasks print, in streams that cannot take all of it."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from scaler.client.core.actions import Print, Tell
from scaler.client.io.background import Background
from scaler.client.io.printing import MOST_PREPARED, Preparations, Printing
from scaler_protocol.ids import TaskId

TEXT = "caf\u00e9 \u4e16 \udc80\n"


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.TextIOBase | None, text: str = TEXT) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    background = Background("scaler-test")
    printing = Printing(background)
    printing.print(Print(1, text))
    printing.wait()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", b"caf\\xe9 \\u4e16 \\udc80\n"),
        ("cp1252", b"caf\xe9 \\u4e16 \\udc80\n"),
        ("utf-8", b"caf\xc3\xa9 \xe4\xb8\x96 \\udc80\n"),
    ],
)
def test_what_a_stream_cannot_encode_is_shown_by_its_number(
    monkeypatch: pytest.MonkeyPatch, encoding: str, expected: bytes
) -> None:
    data = io.BytesIO()
    printed(monkeypatch, io.TextIOWrapper(data, encoding=encoding, newline="\n"))
    assert data.getvalue() == expected


def test_a_stream_that_is_closed_or_not_there_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        printed(monkeypatch, stream)
    assert not caplog.records


def task(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "little"))


def test_what_workers_prepare_is_shown_once_for_all_tasks_that_wait_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "scaler.preparation")
    background = Background("scaler-test")
    preparations = Preparations(background)
    for number in range(3):
        preparations.tell(Tell(task(number), "host a: installing\x1b"))
    preparations.tell(Tell(task(0), "host a: installed"))
    assert preparations.text_of(task(0)) == "host a: installed"
    assert preparations.text_of(task(1)) == r"host a: installing\x1b"
    for number in range(3):
        preparations.tell(Tell(task(number), ""))
    assert not preparations.text_of(task(0))
    preparations.tell(Tell(task(4), "host a: installing\x1b"))
    background.wait(20.0)
    assert [record.getMessage() for record in caplog.records] == [
        r"host a: installing\x1b",
        "host a: installed",
        r"host a: installing\x1b",
    ]


def test_a_program_without_logging_sees_it_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    background = Background("scaler-test")
    preparations = Preparations(background)
    preparations.tell(Tell(task(1), "host a: installing"))
    background.wait(20.0)
    assert capsys.readouterr() == ("", "scaler: host a: installing\n")


def test_preparations_that_never_end_are_bounded() -> None:
    preparations = Preparations(Background("scaler-test"))
    for number in range(MOST_PREPARED + 5):
        preparations.tell(Tell(task(number), "host a: installing"))
    assert not preparations.text_of(task(4)) and preparations.text_of(task(5))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EVIL = "\x1b]0;title\x07\x1b[2J\x9b2J\rall \x1b[31mred\nplain\r\n\u202eafter\u200d\n"


def test_a_terminal_obeys_nothing_of_what_a_task_prints_but_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, kept = Terminal(), io.StringIO()
    printed(monkeypatch, shown, EVIL)
    printed(monkeypatch, kept, EVIL)
    assert kept.getvalue() == EVIL, "a file or pipe has what was printed"
    assert shown.getvalue() == (
        "\\x1b]0;title\\x07\\x1b[2J\\x9b2J\\rall \x1b[31mred\x1b[0m\nplain\r\n\\u202eafter\u200d\n"
    )
