"""What an agent keeps of functions that its processors have fetched."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, content_id
from scaler_worker.code import LARGEST_BYTES, MOST_BYTES, Code


def keep(code: Code, content: bytes) -> ObjectId:
    object_id = content_id(content)
    code.keep(object_id + content)
    return object_id


def test_only_what_has_its_id_and_is_small() -> None:
    code = Code()
    known = keep(code, b"function")
    assert code.get(known) == b"function"
    assert code.get(keep(code, bytes(LARGEST_BYTES + 1))) is None
    other = content_id(b"other")
    code.keep(other + b"not the other")
    code.keep(b"short")
    assert code.get(other) is None
    code.keep(known + b"another function")
    assert code.get(known) == b"function"


def test_what_was_not_used_for_longest_goes_first() -> None:
    code = Code()
    first, second, *others = [
        keep(code, number.to_bytes(2, "little") + bytes(LARGEST_BYTES - 2))
        for number in range(MOST_BYTES // LARGEST_BYTES)
    ]
    assert code.get(first) is not None
    newest = keep(code, b"one more")
    assert code.get(second) is None
    assert all(code.get(object_id) is not None for object_id in (first, *others, newest))
