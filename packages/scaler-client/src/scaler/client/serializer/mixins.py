"""How a program brings a serializer of its own."""

from __future__ import annotations

import abc
from typing import Any


class Serializer(abc.ABC):
    """Turns functions, arguments and results into bytes and back, on the client and, as a copy, on the workers.

    Everything it needs must be importable on the workers.
    """

    @staticmethod
    @abc.abstractmethod
    def serialize(obj: Any) -> bytes:
        """Turn a value into bytes.

        Args:
            obj: a function, an argument or a result.

        Raises:
            Exception: any: the call that needs the bytes raises TypeError with its text.
        """

    @staticmethod
    @abc.abstractmethod
    def deserialize(payload: bytes) -> Any:
        """Turn bytes of `serialize` back into a value.

        Args:
            payload: what `serialize` returned, as real `bytes`.

        Raises:
            Exception: any: the task fails with DeserializeObjectError, or the future raises it.
        """
