"""What becomes of a task whose worker has trouble with the storage: a code of its own, never an exception of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scaler_protocol import codes, values
from scaler_protocol.codec import decode_task_error
from scaler_protocol.errors import ObjectNotFound, ScalerError, StorageUnavailable, storage_error
from scaler_protocol.ids import NO_OWNER, ObjectId, Owner, PeerId, Salt, TaskId, new_object_id
from scaler_protocol.running import calls
from scaler_protocol.running.calls import Context, Objects, result_of
from scaler_protocol.running.ends import failed_end

CONTEXT = Context(PeerId(bytes(16)), codes.CALL_PACKED, (), ObjectId(b""), 0, 0, 0, Salt(b""), b"")
INLINE_BYTES = 65_536


class FakeStorage:
    """Does as it was told to: raises these one after the other, then works."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = failures
        self.patience: list[float] = []
        self.content = values.join(values.dumps(len))

    def __call__(self, address: str, role: int, name: str, timeout_seconds: float, shown: None) -> FakeStorage:
        self.patience.append(timeout_seconds)
        return self

    def get(self, object_id: ObjectId, wait_seconds: float, owner: Owner, **_: Any) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return self.content

    def put(self, object_id: ObjectId, owner: PeerId, buffers: Any, grant: bytes) -> None:
        self.get(object_id, 0.0, NO_OWNER)

    def close(self) -> None:
        pass


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> FakeStorage:
    storage = FakeStorage([])
    monkeypatch.setattr(calls, "ObjectClient", storage)
    return storage


def end_of(call: Any) -> tuple[int, int, str]:
    with pytest.raises(Exception) as caught:
        call()
    status, _, value = failed_end(caught.value, INLINE_BYTES)
    error = decode_task_error(value)
    assert not error.serialized, "an exception of ours is nothing to raise at the caller's"
    return status, error.code, error.message


def objects() -> Objects:
    made = Objects()
    made.use_storage("tcp://127.0.0.1:2346")
    return made


SILENCE = StorageUnavailable("the object storage has been silent for 60 s")


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (SILENCE, codes.STORAGE_UNREACHABLE),
        (storage_error(codes.BAD_ENVELOPE, "nonsense"), codes.STORAGE_UNREACHABLE),
        (ObjectNotFound("none", codes.NO_SUCH_OBJECT), codes.NO_SUCH_OBJECT),
    ],
)
def test_a_task_that_cannot_be_begun_is_refused(storage: FakeStorage, failure: Exception, code: int) -> None:
    storage.failures = [failure] * 3
    fetches = (
        lambda: objects().load_function(new_object_id(), NO_OWNER),
        lambda: objects().serializer(new_object_id(), NO_OWNER),
        lambda: objects().fetch(new_object_id(), NO_OWNER, "an argument"),
    )
    for fetch in fetches:
        assert end_of(fetch)[:2] == (codes.STATUS_REFUSED, code)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (SILENCE, codes.STORAGE_UNREACHABLE),
        (storage_error(codes.STORAGE_FULL, "at its limit"), codes.STORAGE_FULL),
        (storage_error(codes.OWNER_GONE, "has left"), codes.OWNER_GONE),
        (storage_error(codes.BAD_CHUNK, "out of order"), codes.STORAGE_UNREACHABLE),
    ],
)
def test_a_result_that_cannot_be_stored_fails(storage: FakeStorage, failure: ScalerError, code: int) -> None:
    storage.failures = [failure]
    large = b"x" * INLINE_BYTES
    call = lambda: result_of(large, CONTEXT, objects(), TaskId(bytes(16)), 1, INLINE_BYTES)  # noqa: E731
    status, found, message = end_of(call)
    assert (status, found) == (codes.STATUS_FAILED, code)
    assert str(failure) in message and "has run" in message


def test_without_the_name_of_a_storage() -> None:
    assert end_of(lambda: Objects().load_function(new_object_id(), NO_OWNER))[:2] == (
        codes.STATUS_REFUSED,
        codes.STORAGE_UNREACHABLE,
    )


def test_a_storage_that_was_silent_is_waited_for_less_until_it_answers(storage: FakeStorage) -> None:
    """Other workers could run the tasks that wait here meanwhile."""
    storage.failures = [SILENCE, SILENCE]
    made = objects()
    for _ in range(2):
        end_of(lambda: made.fetch(new_object_id(), NO_OWNER, "an argument"))
    for _ in range(2):
        made.fetch(new_object_id(), NO_OWNER, "an argument")
    short, long = calls.SILENCE_AGAIN_SECONDS, calls.SILENCE_SECONDS
    assert storage.patience == [long, short, short, long]


def test_a_storage_that_is_gone_is_not_waited_for_by_each_task(
    storage: FakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection is kept: it refuses at once, and finds out when the storage is back."""
    now = 1000.0
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: now))
    made = objects()

    def fetch() -> Any:
        return made.fetch(new_object_id(), NO_OWNER, "an argument")

    storage.failures = [SILENCE] * 5
    end_of(fetch)
    now += calls.GONE_SECONDS - 1
    end_of(fetch)
    for _ in range(3):
        now += 1
        end_of(fetch)
    short, long = calls.SILENCE_AGAIN_SECONDS, calls.SILENCE_SECONDS
    assert storage.patience == [long, short, short], "the last three share a connection"
    fetch()
    fetch()
    assert storage.patience == [long, short, short, long], "it has answered, so the next one is patient"
