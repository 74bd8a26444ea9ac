"""What people call functions, as their clients say (MON-13), and what large objects are (MON-59). Only for monitors;
bounded, for it is foreign."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from scaler_protocol.codes import OBJECT_CODE_SET, OBJECT_FUNCTION, OBJECT_OTHER, OBJECT_RESULT
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import FunctionName, NameFunctions

NAMES_LIMIT = 10_000
NAME_CHARACTERS = 200
OBJECTS_KEPT = 10_000
"""The last ones, and those that monitors have been told of since: the largest ones stay known."""


class FunctionNames:
    """The oldest are forgotten, those of the user with the most first: a program with a closure in a loop names one for
    each turn. A name is its user's: another user who knows the id does not change it."""

    def __init__(self) -> None:
        self._names: dict[bytes, tuple[str, str]] = {}  #: and the user who gave it
        self._of_user: dict[str, OrderedDict[bytes, None]] = {}  #: the oldest first

    def learn(self, message: NameFunctions, user: str = "") -> None:
        names, own = self._names, self._of_user.setdefault(user, OrderedDict())
        for function_id, name in zip(split_ids(message.ids), message.names, strict=True):
            known = names.get(function_id)
            if known is not None:
                if known[1] != user:
                    continue
                own.move_to_end(function_id)
            names[function_id] = name[:NAME_CHARACTERS], user
            own[function_id] = None
        while len(self._names) > NAMES_LIMIT:
            self._forget_some()
        if not own:
            self._of_user.pop(user, None)

    def _forget_some(self) -> None:
        most = max(self._of_user, key=lambda user: len(self._of_user[user]))
        forgotten = self._of_user[most]
        for _ in range(min(len(self._names) - NAMES_LIMIT, len(forgotten))):
            del self._names[forgotten.popitem(last=False)[0]]
        if not forgotten:
            del self._of_user[most]

    def of(self, function_id: bytes) -> str:
        return self._names.get(function_id, ("",))[0]

    def of_all(self, function_ids: Iterable[bytes]) -> tuple[FunctionName, ...]:
        """Of those whose names are known."""
        found = ((one, self._names.get(one)) for one in function_ids)
        return tuple(FunctionName(ObjectId(one), known[0]) for one, known in found if known is not None)


class KnownObjects:
    """The scheduler sees ids of objects in what it passes on, and reads no object."""

    def __init__(self, names: FunctionNames) -> None:
        self._names = names
        #: kind, and of a result the id of the function that has made it
        self._known: dict[bytes, tuple[int, bytes]] = {}

    def note_result(self, object_id: bytes, function_id: bytes) -> None:
        self._note(object_id, (OBJECT_RESULT, function_id))

    def note_code_set(self, object_id: bytes) -> None:
        self._note(object_id, (OBJECT_CODE_SET, b""))

    def _note(self, object_id: bytes, known: tuple[int, bytes]) -> None:
        self._known.pop(object_id, None)  # the last one stands last
        self._known[object_id] = known
        if len(self._known) > OBJECTS_KEPT:
            del self._known[next(iter(self._known))]

    def told(self, object_id: ObjectId) -> tuple[int, str]:
        """Its kind, and the name of the function that it is, or that has made it."""
        known = self._known.get(object_id)
        if known is not None:
            self._note(object_id, known)
            return known[0], self._names.of(known[1])
        name = self._names.of(object_id)
        return (OBJECT_FUNCTION if name else OBJECT_OTHER), name
