"""Operations with the storage that an exception cuts off in the middle of a step."""

from __future__ import annotations

from tests.support.interrupts import Cut, interrupted_at

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Get, Value
from scaler_protocol.objects.operations import CHUNK_BYTES, GetOperation
from scaler_protocol.objects.requests import ObjectRequests

OBJECT = ObjectId(b"o" * 16)
TIMEOUT = 60.0


def test_a_get_that_was_cut_off_anywhere_is_begun_anew() -> None:
    """By an exception in the middle of any step: no range of the value is lost between two tables."""
    value = bytes(range(256)) * (CHUNK_BYTES * 5 // 512)
    with interrupted_at(None) as counted:
        assert fetched(value) == value
    for place in range(1, counted.count + 1):
        assert fetched(value, cut_at=place) == value, f"cut off at place {place}"


def fetched(value: bytes, cut_at: int | None = None) -> bytes:
    requests, operation = ObjectRequests("tcp://here:1", TIMEOUT), GetOperation(OBJECT, 0.0)
    requests.opened(0.0)
    asked: list[Get] = []

    def step() -> None:
        if not operation.is_done and operation not in requests.operations:
            requests.begin(operation, 0.0)
        asked.extend(requests.take_requests(0.0))
        for get in asked:
            payload = value[get.offset : get.offset + get.chunk_bytes]
            requests.receive(Value(get.request_id, len(value), get.offset, payload), 0.0)
        asked.clear()

    try:
        with interrupted_at(cut_at):
            while not operation.is_done:
                step()
    except Cut:
        asked.clear()
        requests.interrupted(0.0)
        requests.opened(0.0)
        while not operation.is_done:
            step()
    requests.check()
    assert operation.value is not None
    return bytes(operation.value)
