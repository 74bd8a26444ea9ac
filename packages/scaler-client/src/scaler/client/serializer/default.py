"""The default serializer, as an object: pickle protocol 5 by cloudpickle, large buffers beside it."""

from __future__ import annotations

from typing import Any

from scaler.client.serializer.mixins import Serializer
from scaler_protocol import values


class DefaultSerializer(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return bytes(values.join(values.dumps(obj)))

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return values.loads(payload)
