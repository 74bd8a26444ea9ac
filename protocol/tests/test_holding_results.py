"""The results of a round, in messages that the session takes. (LIM-1)"""

from __future__ import annotations

import pytest

from scaler_protocol.codec import decode, encode
from scaler_protocol.codes import STATUS_SUCCESS
from scaler_protocol.holding.results import ResultCollector
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Limits, Results

IDS = [TaskId(number.to_bytes(16, "little")) for number in range(1, 3_000)]


@pytest.mark.parametrize(
    ("limits", "messages"),
    ((Limits(), 1), (Limits(batch_tasks=1_000), 3), (Limits(envelope_bytes=64 * 1024), 3),
     (Limits(payload_frame_bytes=5_000), 3)),
    ids=("default", "tasks", "envelope", "payload"),
)  # fmt: skip
def test_they_are_cut_by_its_limits(limits: Limits, messages: int) -> None:
    collector = ResultCollector()
    collector.limits = limits
    for task_id in IDS:
        collector.append((task_id, 2, STATUS_SUCCESS, 0, b"value", bytes(range(24)), None))
    found = []
    for message in collector.take(9):
        envelope, payload = encode(message)
        read = decode(bytes(envelope), [payload], limits).message
        assert isinstance(read, Results) and read.credit == 9
        found.append(read.ids)
    assert b"".join(found) == b"".join(IDS)
    assert len(found) == messages
    assert not len(collector)
