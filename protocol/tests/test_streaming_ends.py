"""A stream that has ended leaves nothing in the storage, wherever its generator is interrupted, and whenever its client
clears it away. (WRK-60, CLI-29)"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scaler_protocol import task_context
from scaler_protocol.running import streaming
from scaler_protocol.streams import StreamId, Taking, stream_object_id

STREAM, WINDOW, VALUES = StreamId(b"s" * 16), 8, 5


class Interrupted(BaseException):
    """As of a task that is canceled."""


class Bench:
    """A processor's link to the storage, and the client. Time is counted in what the task sends."""

    def __init__(self, interrupted_at: int, cleared_at: int) -> None:
        self.objects: dict[bytes, bytes] = {}
        #: sent, and not read by the storage yet: a Put whose sender was interrupted before the answer
        self.sent: list[tuple[bytes, bytes]] = []
        self.steps = 0
        self.interrupted_at, self.cleared_at = interrupted_at, cleared_at
        self.is_cleared = False

    def put(self, object_id: bytes, pieces: list[bytes]) -> None:
        self.sent.append((object_id, b"".join(pieces)))
        self._step()
        self._arrive()

    def get(self, object_id: bytes, wait_seconds: float) -> bytes | None:
        self._step()
        self._arrive()
        return self.objects.get(object_id)

    def release(self, ids: list[bytes]) -> None:
        self._arrive()
        for one in ids:
            self.objects.pop(one, None)

    def serialized(self, value: bytes) -> list[bytes]:
        return [value]

    def _arrive(self) -> None:
        """In the order in which they were sent, before the next question of this link is read."""
        self.objects.update(self.sent)
        self.sent.clear()

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.cleared_at:
            self.clear()
        if self.steps == self.interrupted_at:
            raise Interrupted

    def clear(self) -> None:
        """By the client, on a link of its own: what is sent here may be read before it or after it."""
        self.is_cleared = True
        for kind, number in Taking(WINDOW).leftovers():
            self.objects.pop(stream_object_id(STREAM, kind, number), None)


def yielding() -> object:
    for number in range(VALUES):
        yield b"%d" % number


@pytest.mark.parametrize("cleared_at", range(12))
@pytest.mark.parametrize("interrupted_at", range(8))
def test_nothing_stays_of_a_stream_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, interrupted_at: int, cleared_at: int
) -> None:
    """An interrupt in the first two steps comes before the stream has begun. A client that clears the stream while the
    generator runs has been told that its worker was lost."""
    bench = Bench(interrupted_at if interrupted_at > 2 else 0, cleared_at if cleared_at > 2 else 0)
    context = SimpleNamespace(outlet=bench, block=lambda: None, unblock=lambda: None)
    monkeypatch.setattr(task_context, "current", lambda: context)
    if bench.interrupted_at:
        with pytest.raises(Interrupted):
            streaming.run(yielding, STREAM, WINDOW, (), {})
    else:
        streaming.run(yielding, STREAM, WINDOW, (), {})
        assert bench.is_cleared or len(bench.objects) == VALUES + 1, "what was yielded is there"
    if not bench.is_cleared:
        bench.clear()  # the client hears of the end, and has dropped the stream
    bench._arrive()
    assert not bench.objects


def test_a_storage_that_cannot_be_reached_does_not_change_how_a_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(0, 0)
    context = SimpleNamespace(outlet=bench, block=lambda: None, unblock=lambda: None)
    monkeypatch.setattr(task_context, "current", lambda: context)

    def unreachable(*_: object) -> bytes:
        raise streaming.StorageError("the storage is silent")

    def last() -> object:
        yield b"1"
        bench.get = unreachable  # type: ignore[method-assign]
        return "the end"

    assert streaming.run(last, STREAM, WINDOW, (), {}) == "the end"
