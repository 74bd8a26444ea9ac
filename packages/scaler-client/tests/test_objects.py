"""Objects sent once, and serializers of programs' own, against a fake cluster on the real wire."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT

from scaler import Client, ObjectReference, Serializer
from scaler.client.serializer.default import DefaultSerializer
from scaler.utility.exceptions import (
    MissingObjects,
)
from scaler_protocol import codes, task_context, values
from scaler_protocol.ids import ObjectId, TaskId, content_id, shown_task


def keyword_only(a: int, *, b: int = 1) -> tuple[int, int]:
    return a, b


def any_keywords(**kw: int) -> dict[str, int]:
    return kw


# ---------------------------------------------------------------- objects


def test_objects_are_sent_once_and_used_by_reference(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1, 2, 3], name="numbers")
    assert isinstance(reference, ObjectReference) and reference.name == b"numbers"
    assert client.submit(operator.getitem, reference, 1).result(WAIT) == 2
    assert client.submit(any_keywords, x=reference).result(WAIT) == {"x": [1, 2, 3]}
    assert client.get({"data": reference, "sum": (sum, "data")}, keys=["sum"]) == {"sum": 6}
    assert client.submit(isinstance, [reference], list).result(WAIT), "inside a container it is not resolved"


def test_a_task_that_calls_itself_stores_no_function(client: Client, cluster: FakeCluster) -> None:
    """Whoever submitted it has, and keeps it for as long as the task runs. (CLI-3)"""
    function = content_id(values.join(values.dumps(abs)))

    class Here:
        """As much of a running task as a call looks at."""

        task_id, depth, priority = TaskId(b"t" * 16), 1, 0
        code_set = b""

        def __init__(self) -> None:
            self.function: ObjectId | None = function

    here: Any = Here()
    stored = set(cluster.objects)
    cluster.hold()
    task_context.set_current(here)
    try:
        own = client.submit(abs, -1)
        here.function = None
        assert set(cluster.objects) == stored
        client.submit(abs, -2)
        assert set(cluster.objects) == {*stored, function}, "the task has ended: now it is this client's own"
    finally:
        task_context.set_current(None)
    cluster.release()
    assert own.result(WAIT) == 1


def test_clear_cancels_and_invalidates_and_the_client_goes_on(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1])
    finished = client.submit(abs, -1)
    assert finished.result(WAIT) == 1
    cluster.hold()
    held = client.submit(abs, -2)
    client.clear()
    assert held.cancelled() and finished.result() == 1
    with pytest.raises(MissingObjects):
        client.submit(len, reference)
    cluster.release()
    assert client.submit(abs, -3).result(WAIT) == 3


def test_another_clients_reference_is_not_ours(client: Client, cluster: FakeCluster) -> None:
    with Client(cluster.address) as other, pytest.raises(MissingObjects):
        client.submit(len, other.send_object([1]))


class Tagging(Serializer):
    """Tags what it serializes, so that a test sees who has done it."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"T" + DefaultSerializer.serialize(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes and payload[0] == ord("T")
        return DefaultSerializer.deserialize(payload[1:])


# ---------------------------------------------------------------- serializers


def test_a_programs_own_serializer_makes_every_part(cluster: FakeCluster, tmp_path: Path) -> None:
    calls: list[Any] = []

    class Counting(Tagging):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            calls.append(obj)
            return Tagging.serialize(obj)

    with Client(cluster.address, serializer=Counting()) as client:
        cluster.is_holding = True
        client.submit(keyword_only, 1, b=2)
        assert calls == [keyword_only, 1, 2]
        header = cluster.submits[-1].header if cluster.submits else None
        assert header is None or header.call_format == codes.CALL_SEPARATE
        client.clear()


def test_what_a_task_prints_appears_here(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(cluster.address, stream_output=True) as client:
        future = client.submit(abs, -1)
        future.result(WAIT)
        assert client._ready().connection.callbacks.wait(WAIT)
    assert capsys.readouterr().out == f"[task {shown_task(future.task_id)}] printed by the task\n"
