"""What an agent keeps of functions that its processors have fetched."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, content_id
from scaler_worker.code import LARGEST_BYTES, MOST_BYTES, Code


def keep(code: Code, content: bytes, family: bytes = b"") -> ObjectId:
    object_id = content_id(content)
    code.keep(family, object_id + content)
    return object_id


def test_only_what_has_its_id_and_is_small() -> None:
    code = Code()
    known = keep(code, b"function")
    assert code.get(b"", known) == b"function"
    assert code.get(b"", keep(code, bytes(LARGEST_BYTES + 1))) is None
    other = content_id(b"other")
    code.keep(b"", other + b"not the other")
    code.keep(b"", b"short")
    assert code.get(b"", other) is None
    code.keep(b"", known + b"another function")
    assert code.get(b"", known) == b"function"


def test_what_was_not_used_for_longest_goes_first() -> None:
    code = Code()
    first, second, *others = [
        keep(code, number.to_bytes(2, "little") + bytes(LARGEST_BYTES - 2))
        for number in range(MOST_BYTES // LARGEST_BYTES)
    ]
    assert code.get(b"", first) is not None
    newest = keep(code, b"one more")
    assert code.get(b"", second) is None
    assert all(code.get(b"", object_id) is not None for object_id in (first, *others, newest))


def test_what_was_fetched_for_one_family_is_not_given_to_another() -> None:
    """(WRK-43)"""
    code = Code()
    known = keep(code, b"function", b"ana".ljust(16))
    assert code.get(b"joe".ljust(16), known) is None and code.get(b"", known) is None
    assert code.get(b"ana".ljust(16), known) == b"function"
    assert code.get(bytes(17), keep(code, b"function", bytes(17))) is None, "no family is so long"
