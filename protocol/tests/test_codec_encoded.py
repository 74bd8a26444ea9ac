"""One message for many peers: encoded once, and each copy is what the ordinary encoder would have made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scaler_protocol.codec import decode, encode
from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import (
    ClusterStatus,
    Count,
    GraphShape,
    GraphShapes,
    Message,
    SampleBlock,
    TaskLog,
    TaskSamples,
    WorkerEntry,
)

NUMBERS = some.integers(0, 2**64 - 1)
PEER = PeerId(bytes(range(16)))
SAMPLES: list[Message] = [
    ClusterStatus(),
    ClusterStatus(7, 8, PEER, task_counts=(Count("queued", 3),)),
    ClusterStatus(workers=tuple(WorkerEntry(PEER, "w" * number) for number in range(1_000))),
    TaskSamples(3, PEER, 1.5, (SampleBlock(PEER, "w", 0.5, 9, bytes(5_600)),) * 40),
    GraphShapes(4, PEER, (GraphShape(ids=bytes(16_000), states=bytes(1_000)),) * 8),
    TaskLog(TaskId(PEER), 1, "line\n" * 1_000, "w1"),
]


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
@given(seq=NUMBERS, ack=NUMBERS)
def test_a_copy_is_the_message_with_other_numbers(message: Message, seq: int, ack: int) -> None:
    (envelope,) = Encoded(message).frames(seq, ack)
    assert bytes(envelope) == bytes(encode(message, seq, ack)[0])


@given(seq=NUMBERS, ack=NUMBERS, request_id=NUMBERS)
def test_an_answer_has_the_number_of_its_question(seq: int, ack: int, request_id: int) -> None:
    for status in SAMPLES[:3]:
        made = Encoded(status)
        (envelope,) = made.answering(request_id).frames(seq, ack)
        found = decode(bytes(envelope), ())
        assert (found.seq, found.ack) == (seq, ack)
        assert isinstance(status, ClusterStatus) and isinstance(found.message, ClusterStatus)
        assert found.message.request_id == request_id and found.message.workers == status.workers
        (envelope,) = made.frames(seq, ack)
        assert decode(bytes(envelope), ()).message == status, "the original is as it was"
