"""What the codec costs, for `make bench-micro`. Nothing here asserts a time: machines differ, so do their neighbours.

Times are of whole messages: divide by the count of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler_protocol import codec, codes
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import ObjectId, PeerId, new_object_id, new_peer_id, task_id_source
from scaler_protocol.messages import Dispatch, Get, Message, Ping, Put, Results, Submit, TaskHeader, Value

ARGUMENT_BYTES = 50
VALUE_BYTES = 20
Benchmark = Callable[..., Any]


def submit(count: int) -> Submit:
    return Submit(**columns(count, TaskHeader(client=new_peer_id(), priority=1)))


def dispatch(count: int) -> Dispatch:
    return Dispatch(**columns(count, TaskHeader(client=new_peer_id())), attempts=join_u16([1] * count))


def columns(count: int, header: TaskHeader) -> dict[str, Any]:
    return {
        "header": header,
        "functions": new_object_id(),
        "ids": b"".join(task_id_source()(count)),
        "payload": bytes(ARGUMENT_BYTES * count),
        "part_sizes": join_u32([ARGUMENT_BYTES] * count),
    }


def results(count: int) -> Results:
    return Results(
        ids=b"".join(task_id_source()(count)),
        payload=bytes(VALUE_BYTES * count),
        sizes=join_u32([VALUE_BYTES] * count),
        statuses=bytes((codes.STATUS_SUCCESS,)) * count,
        credit=1000,
    )


SAMPLES: dict[str, Message] = {
    "submit-1": submit(1),
    "submit-1000": submit(1000),
    "dispatch-1": dispatch(1),
    "dispatch-1000": dispatch(1000),
    "results-1": results(1),
    "results-1000": results(1000),
    "ping": Ping(7),
    "put": Put(1, ObjectId(bytes(16)), PeerId(bytes(16)), 8, 0, b"contents"),
    "get": Get(1, ObjectId(bytes(16))),
    "value": Value(1, 8, 0, b"contents"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_encode(benchmark: Benchmark, name: str) -> None:
    benchmark(codec.encode, SAMPLES[name], 5, 3)


@pytest.mark.parametrize("name", SAMPLES)
def test_decode(benchmark: Benchmark, name: str) -> None:
    envelope, *payload = codec.encode(SAMPLES[name], 5, 3)
    decoded = benchmark(codec.decode, bytes(envelope), payload)
    assert decoded.message == SAMPLES[name]
