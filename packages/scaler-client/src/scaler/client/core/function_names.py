"""Names of functions, told once in each session. (MON-13)"""

from __future__ import annotations

from scaler_protocol.columns import join_ids
from scaler_protocol.ids import ObjectId
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
        self._known[function_id] = self._unsent[function_id] = name[:NAME_CHARACTERS]
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def forget_session(self) -> None:
        """Whoever answers next has heard nothing of it."""
        self._unsent = dict(self._known)

    def take(self) -> NameFunctions:
        unsent, self._unsent = self._unsent, {}
        return NameFunctions(join_ids(unsent), tuple(unsent.values()))
