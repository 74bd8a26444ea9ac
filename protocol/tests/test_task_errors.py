"""The TaskError of an exception: never larger than the inline limit, and without loss of the exception. (PAY-2)"""

from __future__ import annotations

import pytest

from scaler_protocol import values
from scaler_protocol.codec import decode_task_error
from scaler_protocol.codes import STORAGE_FULL
from scaler_protocol.ids import ObjectId, stored_at
from scaler_protocol.running.errors import TaskFailed, encode_exception

LIMITS = (1024, 4 * 1024, 64 * 1024)
OBJECT = ObjectId(b"o" * 16)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("character", ["x", "\xe9", "\u20ac", "\U0001f600", "\ud800"])
@pytest.mark.parametrize("size", [1, 100, 1_000, 10_000, 100_000])
def test_an_exception_of_any_size_comes_out_and_its_error_has_room(limit: int, character: str, size: int) -> None:
    stored: list[bytes] = []

    def store(serialized: bytes) -> ObjectId:
        stored.append(serialized)
        return OBJECT

    kind = type("N" * min(size, 300), (Exception,), {"__module__": "__main__"})
    for error in (ValueError(character * size), kind(character * size)):
        stored.clear()
        encoded = encode_exception(error, limit, store)
        assert len(encoded) <= limit
        told = decode_task_error(encoded)
        assert (stored_at(told.serialized) == OBJECT) == bool(stored)
        copy = values.loads(stored[0] if stored else told.serialized)
        assert copy.args == error.args and type(copy).__name__ == type(error).__name__


def test_what_cannot_be_stored_leaves_its_texts() -> None:
    def store(_serialized: bytes) -> ObjectId:
        raise TaskFailed(STORAGE_FULL, "no room")

    for way in (store, None):
        told = decode_task_error(encode_exception(ValueError("x" * 100_000), 64 * 1024, way))
        assert told.serialized == b"" and told.type_name == "builtins.ValueError" and told.message.startswith("xxx")
