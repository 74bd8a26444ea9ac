"""What a workload costs the scheduler grows as its size does, whatever its shape.

Counted in bytecodes, because a loop over ten thousand neighbours is one step of a workload (`test_batches`), and may be
taken ten thousand times: the sum of ten thousand values took 10 s.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from scaler_protocol import codec, codes
from scaler_protocol.codec import batches
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import ID_BYTES, GraphId, TaskId
from scaler_protocol.messages import Submit, TaskHeader
from scaler_scheduler.core import FEATURE_CHAINS
from tests.costs.test_batches import Wire, chain, task_ids, tree
from tests.support.scheduler_story import FUNCTION

SIZE = 400
TIMES = 4
GROWTH = 1.3
"""By so much may each task of a workload that is `TIMES` as large cost more. It was 3.6 for the sum of all."""


def linked(ids: Sequence[TaskId], needs: Sequence[Sequence[TaskId]]) -> Submit:
    """Each task takes the values of these others; only the last is wanted."""
    every = [one for own in needs for one in own]
    return Submit(
        header=TaskHeader(graph_id=GraphId(b"graph".ljust(ID_BYTES, b"."))),
        functions=FUNCTION,
        ids=join_ids(ids),
        payload=b"".join(b"v" + join_ids(own) for own in needs),
        part_counts=join_u16([1 + len(own) for own in needs]),
        part_sizes=join_u32([size for own in needs for size in (1, *[ID_BYTES] * len(own))]),
        part_kinds=b"".join(bytes([codes.KIND_INLINE]) + bytes([codes.KIND_TASK]) * len(own) for own in needs),
        dependency_counts=join_u16([len(own) for own in needs]),
        dependencies=join_ids(every),
        task_flags=bytes([codes.TASK_UNWANTED] * (len(ids) - 1) + [0]),
    )


def sum_of_all(ids: Sequence[TaskId]) -> Submit:
    return linked(ids, [()] * (len(ids) - 1) + [ids[:-1]])


def all_of_one(ids: Sequence[TaskId]) -> Submit:
    return linked(ids, [(), *[ids[:1]] * (len(ids) - 1)])


def there_and_back(ids: Sequence[TaskId]) -> Submit:
    return linked(ids, [(), *[ids[:1]] * (len(ids) - 2), ids[1:-1]])


def comb(ids: Sequence[TaskId]) -> Submit:
    """Each takes the value of the one before it, and of the first."""
    return linked(ids, [(), ids[:1], *[(before, ids[0]) for before in ids[1:-1]]])


def bytecodes_of(function: Callable[[], Any]) -> int:
    """How many the interpreter runs for it, in functions of ours and in their loops."""
    count = 0

    def note(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def played(shape: Callable[[Sequence[TaskId]], Submit], size: int, credit: int) -> None:
    wire = Wire(workers=2, credit=credit, features=(FEATURE_CHAINS,))
    wire.submit(shape(task_ids(size)))
    wire.run()
    assert wire.ended_count == size


@pytest.mark.parametrize("credit", (8, 10 * SIZE))
@pytest.mark.parametrize("shape", (sum_of_all, all_of_one, there_and_back, comb, chain, tree))
def test_a_graph_costs_as_its_size(shape: Callable[[Sequence[TaskId]], Submit], credit: int) -> None:
    small, large = (bytecodes_of(lambda size=size: played(shape, size, credit)) for size in (SIZE, TIMES * SIZE))
    assert large <= GROWTH * TIMES * small, f"{large / small:.2f} times as much for {TIMES} times as many"


class Compared(bytes):
    """An id that counts how often it is compared."""

    count = 0
    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return bytes.__eq__(self, other)  # type: ignore[arg-type]


def test_a_task_with_many_inputs_costs_as_they_are_many_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One Submit with a task of 65,535 inputs stopped the scheduler for 45 s, for all clients."""
    split = batches.split_ids
    monkeypatch.setattr(batches, "split_ids", lambda column: tuple(map(Compared, split(column))))
    envelope, payload = codec.encode(sum_of_all(task_ids(1_000)), 1, 1)
    codec.decode(bytes(envelope), [payload])
    assert Compared.count < 10_000
