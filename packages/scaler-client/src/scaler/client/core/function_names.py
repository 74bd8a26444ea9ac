"""Names of functions, told once in each session. (MON-13)"""

from __future__ import annotations

from scaler.client.core.batching import TEXT_BYTES, Bounds, runs_of
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import ID_BYTES, ObjectId
from scaler_protocol.messages import NameFunctions

REMEMBERED = 1_000
"""For the next session. Programs with more functions than that make them in a loop, and their names tell little."""
NAME_CHARACTERS = 200


class Names:
    def __init__(self) -> None:
        self._known: dict[ObjectId, str] = {}
        self._unsent: dict[ObjectId, str] = {}

    def __bool__(self) -> bool:
        """There is something to tell."""
        return bool(self._unsent)

    def add(self, function_id: ObjectId, name: str) -> None:
        # Any object may claim any name: what no message can carry is shown as question marks.
        name = name[:NAME_CHARACTERS].encode(errors="replace").decode()
        self._known[function_id] = self._unsent[function_id] = name
        while len(self._known) > REMEMBERED:
            forgotten = next(iter(self._known))
            del self._known[forgotten]
            self._unsent.pop(forgotten, None)

    def forget_session(self) -> None:
        """The scheduler that answers next knows none of them."""
        self._unsent = dict(self._known)

    def take(self, bounds: Bounds) -> list[NameFunctions]:
        """All of it, in messages that fit."""
        unsent, self._unsent = list(self._unsent.items()), {}
        weights = [(0, ID_BYTES + TEXT_BYTES + len(name.encode())) for _, name in unsent]
        messages = []
        for begin, end in runs_of(weights, bounds):
            ids, names = zip(*unsent[begin:end], strict=True)
            messages.append(NameFunctions(join_ids(ids), names))
        return messages
