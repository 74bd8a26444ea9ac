"""What monitors are told of one task: whose it is, where it ran, and what became of its attempts (MON-32, MON-55)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler_protocol.columns import measured
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import TaskFailure
from scaler_scheduler.core.chunk import Chunk
from scaler_scheduler.core.deaths import Deaths
from scaler_scheduler.core.display import DisplayIds

ACCOUNTS, ACCOUNT_CHARACTERS = 16, 200


def record_of(
    display: DisplayIds,
    chunk: Chunk,
    task_id: TaskId,
    attempt: int,
    *,
    worker: str = "",
    status: int = 0,
    profile: bytes = b"",
    accounts: Iterable[str] = (),
) -> TaskFailure:
    index = chunk.index_of[task_id]
    duration_seconds, cpu_seconds, memory_bytes = measured(profile)
    return TaskFailure(
        task_id=task_id,
        function_id=ObjectId(chunk.function_id(index)),
        client_id=display.of(chunk.client.peer_id),
        user=chunk.client.user,
        worker=worker,
        status=status,
        attempt=attempt,
        accounts=cut(accounts),
        duration_seconds=duration_seconds,
        cpu_seconds=cpu_seconds,
        memory_bytes=memory_bytes,
        argument_bytes=chunk.bytes_of((index,)),
        graph_id=GraphId(chunk.header.graph_id),
        parent_task=TaskId(chunk.header.parent_task),
        key=chunk.key(index).decode(errors="replace"),
    )


def accounts_of(lost: Sequence[str], deaths: Deaths | None) -> tuple[str, ...]:
    """What became of earlier attempts: workers that were lost, and processors that died."""
    return (*lost, *(deaths.accounts if deaths is not None else ()))


def cut(accounts: Iterable[str]) -> tuple[str, ...]:
    return tuple([one[:ACCOUNT_CHARACTERS] for one in accounts][-ACCOUNTS:])
