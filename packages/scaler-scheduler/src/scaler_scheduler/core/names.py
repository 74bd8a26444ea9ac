"""What people call functions, as their clients say (MON-13). Only for those who watch; bounded, for it is foreign."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import FunctionName, NameFunctions

NAMES_LIMIT = 10_000
NAME_CHARACTERS = 200


class FunctionNames:
    """The oldest are forgotten: a program with a closure in a loop names one for each turn."""

    def __init__(self) -> None:
        self._names: OrderedDict[bytes, str] = OrderedDict()

    def learn(self, message: NameFunctions) -> None:
        names = self._names
        for function_id, name in zip(split_ids(message.ids), message.names, strict=True):
            names.pop(function_id, None)
            names[function_id] = name[:NAME_CHARACTERS]
        while len(names) > NAMES_LIMIT:
            names.popitem(last=False)  # a dict would pass over all that were deleted before, each time

    def of(self, function_id: bytes) -> str:
        return self._names.get(function_id, "")

    def of_all(self, function_ids: Iterable[bytes]) -> tuple[FunctionName, ...]:
        """Of those whose names are known."""
        found = ((one, self._names.get(one)) for one in function_ids)
        return tuple(FunctionName(ObjectId(one), name) for one, name in found if name is not None)
