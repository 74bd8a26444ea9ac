"""Operations with the storage that an exception cuts off in the middle of a step."""

from __future__ import annotations

from tests.support.interrupts import Cut, interrupted_at

from scaler_protocol.ids import ObjectId, Owner, PeerId
from scaler_protocol.messages import Get, Put, Release, Value
from scaler_protocol.objects.operations import (
    CHUNK_BYTES,
    GetOperation,
    Operation,
    PutOperation,
    ReleaseOperation,
)
from scaler_protocol.objects.requests import ObjectRequests

OBJECT, OTHER = ObjectId(b"o" * 16), ObjectId(b"p" * 16)
OWNER, ANOTHER = Owner(PeerId(b"c" * 16)), Owner(PeerId(b"d" * 16))
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


def asked_for(requests: ObjectRequests, *operations: Operation) -> list[type]:
    """The kinds of the messages that leave when these have begun."""
    for operation in operations:
        requests.begin(operation, 0.0)
    return [type(request) for request in requests.take_requests(0.0)]


def test_a_release_gives_up_a_put_of_the_same_object_that_is_not_done() -> None:
    """Operations take turns: its later chunks would store the object again, behind the Release. The caller of such a
    put was interrupted before it could wait for it."""
    requests, chunk = ObjectRequests("tcp://here:1", TIMEOUT), bytes(CHUNK_BYTES)
    requests.opened(0.0)
    put, other = PutOperation(OBJECT, OWNER, [chunk] * 2), PutOperation(OTHER, OWNER, [chunk])
    of_another = PutOperation(OBJECT, ANOTHER, [chunk])
    kinds = asked_for(requests, put, other, of_another, ReleaseOperation(OWNER, [OBJECT]))
    assert kinds == [Put, Put, Release]
    assert put.is_done and not other.is_done and not of_another.is_done
    assert put.error is None, "to a caller that still waits, it was stored and then released"


def test_a_release_after_a_put_is_asked_for_after_all_its_chunks() -> None:
    requests = ObjectRequests("tcp://here:1", TIMEOUT)
    requests.opened(0.0)
    assert asked_for(requests, PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 2)) == [Put, Put]
    assert asked_for(requests, ReleaseOperation(OWNER, [OBJECT])) == [Release]
