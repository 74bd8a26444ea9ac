"""What one call has to store before it can leave.

The objects belong to their `Puts` from before they are sent until the call has left. If an exception leaves the `with`,
or the `Puts` is dropped, they are released. So an interrupt of the call's own code, or one put of several that fails,
leaves nothing in the storage. An interrupt in a turn of a driver below leaves nothing either: what begins again there
releases once more, and a release gives up a put that is not done. If the storage link was interrupted while a put was
on its way, its next session replaces the one of the put: the storage takes the put before the release, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from scaler.client.objects.garbage import Garbage
from scaler_protocol.ids import ObjectId, new_object_id
from scaler_protocol.messages import Buffer


class StartedPut(Protocol):
    """An object on its way to the storage."""

    @property
    def is_done(self) -> bool: ...

    def finish(self) -> None:
        """Until it is there; raises what went wrong. Until then its bytes must not change."""


StartPut = Callable[[ObjectId, Sequence[Buffer]], StartedPut]


class Puts:
    def __init__(self, start_put: StartPut, garbage: Garbage) -> None:
        self.ids: list[ObjectId] = []
        self._start_put = start_put
        self._garbage = garbage
        self._started: list[StartedPut] = []

    def start(self, pieces: Sequence[Buffer]) -> ObjectId:
        """Until `finish` the bytes must not change."""
        object_id = new_object_id()
        # First what frees it: an interrupt may come between any two lines.
        self.ids.append(object_id)
        self._garbage.add_after(self, (object_id,))
        self._started.append(self._start_put(object_id, pieces))
        return object_id

    @property
    def is_done(self) -> bool:
        return all(put.is_done for put in self._started)

    def finish(self) -> None:
        """Until all are there; raises what went wrong."""
        while self._started:
            self._started[0].finish()
            del self._started[0]

    def hand_over(self) -> None:
        """The core releases them when the call has ended."""
        for object_id in self.ids:
            self._garbage.forget((object_id,))

    def release(self) -> None:
        """Takes no lock."""
        self._garbage.add(tuple(self.ids))
        self.hand_over()

    def __enter__(self) -> Puts:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.release()
