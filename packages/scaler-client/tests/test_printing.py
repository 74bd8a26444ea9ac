"""What tasks print, in streams that cannot take all of it."""

from __future__ import annotations

import io
import sys

import pytest

from scaler.client.core.actions import Print
from scaler.client.io.background import Background
from scaler.client.io.printing import Printing

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
