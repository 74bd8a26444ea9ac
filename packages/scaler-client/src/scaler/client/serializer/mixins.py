"""How a program brings a serializer of its own."""

from __future__ import annotations

import abc
from typing import Any


class Serializer(abc.ABC):
    """Turns functions, arguments and results into bytes and back, on the client and, as a copy, on the workers.

    Everything it needs must be importable on the workers. `deserialize` is always given real `bytes`.
    """

    @staticmethod
    @abc.abstractmethod
    def serialize(obj: Any) -> bytes: ...

    @staticmethod
    @abc.abstractmethod
    def deserialize(payload: bytes) -> Any: ...
