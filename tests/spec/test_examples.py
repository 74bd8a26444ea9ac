"""The bytes printed in the specification are what the schema and the rules make of them."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path

import pytest

from scaler_protocol import codes, columns
from scaler_protocol.codec import decode, encode
from scaler_protocol.ids import PeerId, Salt, TaskId, content_id, result_object_id
from scaler_protocol.messages import NO_SALT, Dispatch, Message, Ping, Results, Submit, TaskHeader

SPEC = Path(__file__).resolve().parents[2] / "protocol" / "spec"
CLIENT = bytes(range(1, 17))


def block(chapter: str, name: str) -> list[str]:
    text = (SPEC / chapter).read_text(encoding="utf-8")
    return text.partition(f"```hex {name}\n")[2].partition("\n```")[0].splitlines()


def example(name: str) -> dict[str, bytes]:
    """Lines of `column  hex hex …     remark`; a line without a column goes on with the one above."""
    found: dict[str, bytes] = {}
    column = ""
    for line in block("08-batches.md", name):
        column = line[:18].strip() or column
        digits = re.split(r" {2,}", line[18:])[0]
        found[column] = found.get(column, b"") + bytes.fromhex(digits)
    assert found, f"no example {name} in the chapter"
    return found


def fields(name: str) -> dict[str, bytes]:
    return {re.sub("([A-Z])", r"_\1", column).lower(): value for column, value in example(name).items()}


def there_and_back(message: Message) -> Message:
    envelope, *payload = encode(message, seq=1, ack=0)
    return decode(bytes(envelope), payload).message


def test_the_ping_of_chapter_one() -> None:
    data = b"".join(bytes.fromhex(line[:23]) for line in block("01-framing.md", "envelope"))
    envelope = decode(data, [])
    assert (envelope.seq, envelope.ack, envelope.message) == (5, 3, Ping(nonce=7))


def test_the_submit_of_chapter_eight() -> None:
    submit = Submit(header=TaskHeader(call_format=codes.CALL_RAW), **fields("submit"))
    assert there_and_back(submit) == submit
    sizes = columns.split_u32(submit.part_sizes)
    parts = [bytes(submit.payload)[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
    assert parts == [b"hi", b"\x0b" * 16, b"!", b"\x01" * 16] and len(submit.payload) == 35


def test_the_results_of_chapter_eight() -> None:
    results = Results(**fields("results"))
    assert there_and_back(results) == results


def test_the_dispatch_of_chapter_eight() -> None:
    header = TaskHeader(client=CLIENT, call_format=codes.CALL_RAW)  # type: ignore[arg-type]
    dispatch = Dispatch(header=header, **fields("dispatch"))
    assert there_and_back(dispatch) == dispatch
    assert bytes(dispatch.payload) == b"\x01" * 16 + b"HI"


@pytest.mark.parametrize("salt", [NO_SALT, Salt(bytes(range(16)))])
@pytest.mark.parametrize("attempt", [1, 2])
def test_the_result_ids_of_chapter_thirteen(attempt: int, salt: Salt) -> None:
    task_id = TaskId(bytes.fromhex("a1a2a3a4a5a6a7a80000000000000000"))
    assert result_object_id(task_id, attempt, salt, PeerId(CLIENT)).hex() in (SPEC / "13-ownership.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("content", [b"", b"name:echo"])
def test_the_content_ids_of_chapter_twelve(content: bytes) -> None:
    assert content_id(content).hex() in (SPEC / "12-storage.md").read_text(encoding="utf-8")
