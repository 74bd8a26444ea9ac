"""Fetching beside the loop: whatever comes of it is told."""

from __future__ import annotations

import queue

import pytest

from scaler_protocol.codes import FUNCTION_UNREADABLE, STORAGE_UNREACHABLE
from scaler_protocol.errors import StorageUnavailable
from scaler_protocol.ids import NO_OWNER, ObjectId, Owner, content_id, new_object_id
from scaler_protocol.objects import ObjectClient
from scaler_symphony.core.events import Event, Fetched, FetchFailed
from scaler_symphony.objects import Fetcher

WAIT = 10.0
FUNCTION = ObjectId(b"f" * 16)


@pytest.mark.parametrize(
    "error, code, text",
    [
        (StorageUnavailable("it is away"), STORAGE_UNREACHABLE, "cannot be fetched on this worker: it is away"),
        (MemoryError(), FUNCTION_UNREADABLE, "cannot be fetched: MemoryError"),
    ],
)
def test_whatever_a_fetch_raises_is_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, text: str
) -> None:
    def get(_client: ObjectClient, _object_id: ObjectId, _wait_seconds: float, _owner: Owner) -> bytes:
        raise error

    monkeypatch.setattr(ObjectClient, "get", get)
    told: queue.SimpleQueue[Event] = queue.SimpleQueue()
    fetcher = Fetcher(told.put)
    fetcher.use_storage("tcp://127.0.0.1:1")
    fetcher.fetch(FUNCTION, NO_OWNER)
    failed = told.get(timeout=WAIT)
    fetcher.close()
    assert isinstance(failed, FetchFailed) and (failed.object_id, failed.code) == (FUNCTION, code)
    assert failed.text.endswith(text)


def test_a_function_with_other_bytes_than_its_id_says_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectClient, "get", lambda *_: b"name:other")
    told: queue.SimpleQueue[Event] = queue.SimpleQueue()
    fetcher = Fetcher(told.put)
    fetcher.use_storage("tcp://127.0.0.1:1")
    fetcher.fetch(FUNCTION, NO_OWNER)
    failed = told.get(timeout=WAIT)
    fetcher.fetch(content_id(b"name:other"), NO_OWNER)
    fetched = told.get(timeout=WAIT)
    fetcher.close()
    assert isinstance(failed, FetchFailed) and failed.code == FUNCTION_UNREADABLE and "other bytes" in failed.text
    assert fetched == Fetched(content_id(b"name:other"), b"name:other")


@pytest.mark.parametrize("error", (MemoryError(), SystemExit(3), KeyboardInterrupt(), ValueError("unforeseen")))
def test_a_fetch_has_an_answer_whatever_it_meets(error: BaseException) -> None:
    told: list[object] = []

    class Broken:
        def get(self, *_: object) -> bytes:
            raise error

    Fetcher(told.append)._fetch(Broken(), new_object_id(), NO_OWNER)  # type: ignore[arg-type]
    (failed,) = told
    assert isinstance(failed, FetchFailed)
