"""The thread that does small jobs, and the exit of a program, at which no thread begins any more."""

from __future__ import annotations

import threading

import pytest

from scaler.client.io.background import Background


def test_jobs_are_done_at_the_exit_where_no_thread_begins_any_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As `Thread.start` does since Python 3.12."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background = Background("scaler-test")
    done: list[tuple[str, int]] = []

    def job(name: str) -> None:
        done.append((name, threading.get_ident()))
        if name == "first":
            background.run(lambda: job("made by the first"))
            raise ValueError("of a callback")

    background.run(lambda: job("first"))
    background.run(lambda: job("second"))
    assert not done and not background.is_this_thread
    background.finish()
    here = threading.get_ident()
    assert done == [("first", here), ("second", here), ("made by the first", here)]
    assert caplog.messages == ["a callback failed"]
    background.finish()
    assert len(done) == 3
