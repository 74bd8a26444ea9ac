"""What monitors are told of one task: whose it is, where it ran, when, and what became of its attempts (MON-32,
MON-55, MON-62)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scaler_protocol.columns import measured
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import TaskFailure
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.moments import ago, moment_of
from scaler_scheduler.core.notes.deaths import Deaths
from scaler_scheduler.core.notes.display import DisplayIds

ACCOUNTS, ACCOUNT_CHARACTERS = 16, 200


def record_of(
    display: DisplayIds,
    chunk: Chunk,
    task_id: TaskId,
    attempt: int,
    now: float,
    *,
    is_dispatched: bool = True,
    worker: str = "",
    status: int = 0,
    profile: bytes = b"",
    accounts: Iterable[str] = (),
) -> TaskFailure:
    """`is_dispatched`: a worker has it, or had it in this attempt."""
    index = chunk.index_of[task_id]
    is_known = not chunk.is_adopted
    since_seconds = now - chunk.submitted_at
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
        submitted_seconds=ago(0.0, since_seconds) if is_known else 0.0,
        ready_seconds=ago(moment_of(chunk.ready, index), since_seconds),
        dispatched_seconds=ago(moment_of(chunk.dispatched, index), since_seconds) if is_dispatched else 0.0,
    )


def aged(record: TaskFailure, seconds: float) -> TaskFailure:
    """As it is told so long after it was made, which was when the task ended."""
    seconds = max(0.0, seconds)
    moments = record.submitted_seconds, record.ready_seconds, record.dispatched_seconds
    submitted, ready, dispatched = [moment and moment + seconds for moment in moments]
    return replace(
        record,
        age_seconds=seconds,
        submitted_seconds=submitted,
        ready_seconds=ready,
        dispatched_seconds=dispatched,
    )


def accounts_of(lost: Sequence[str], deaths: Deaths | None) -> tuple[str, ...]:
    """What became of earlier attempts: workers that were lost, and processors that died."""
    return (*lost, *(deaths.accounts if deaths is not None else ()))


def cut(accounts: Iterable[str]) -> tuple[str, ...]:
    return tuple([one[:ACCOUNT_CHARACTERS] for one in accounts][-ACCOUNTS:])
