"""Processors are replaced between tasks, and a task that takes too much memory is ended. (WRK-44 to WRK-47)

Theory of operation. The shell reads how much memory each processor has whenever `next_read_at` says so: the nearer the
processor is to its limit, the sooner. Nothing can fill memory faster than `FILL_BYTES_PER_SECOND`, so a reading bounds
what there can be until the next one.

A processor is *worn* when it gets no further task: it has ended as many as it may, or it holds more than the soft
limit. A worn processor goes as soon as it is idle, which is between two tasks: a task that waits for its children is
never idle. Its successor is started while it runs its last task.

The values that a processor keeps for tasks to come are no task's, and never a reason to end one: they are not counted,
and near the limit they are given back. They are an eighth of the limit at most (`kept.py`). That is how far a processor
can be above it, and only until its task lets the signal be handled.

At the hard limit the processor is killed. Its task is to blame if it began when the processor was below the soft limit,
or has been seen there since. Otherwise memory that earlier tasks left may be the cause: then the task ends as one whose
processor died, so that it runs again, in another processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from scaler_protocol.codes import MEMORY_LIMIT, STATUS_TIMED_OUT
from scaler_protocol.holding.tasks import StopOrder, Task
from scaler_protocol.messages import TaskError
from scaler_protocol.running.kept import most_kept_bytes
from scaler_worker.core.actions import GiveBackKept, KillProcessor, Log, StopProcessor
from scaler_worker.core.processors import Processor, State, Step
from scaler_worker.core.tables import Tables

SOFT_SHARE = 0.8
"""Of the limit: what a processor may keep between two tasks. The rest is the least that each task has to itself."""
FILL_BYTES_PER_SECOND = 8 << 30
"""Twice what one thread was measured to fill. (decision 0019)"""
SHORTEST_SECONDS = 0.005
LONGEST_SECONDS = 1.0
LEAVE_SECONDS = 5.0
"""A processor that was asked to leave and has not left by then is killed."""

_IDLE = State.IDLE
_UNREAD = (State.STARTING, State.STOPPING)


def soft_bytes(tables: Tables) -> int:
    return int(SOFT_SHARE * tables.settings.memory_bytes)


# ---------------------------------------------------------------- what is read


def next_read_at(tables: Tables) -> float:
    return min((_read_at(tables, processor) for processor in tables.processors.values()), default=inf)


def to_read(tables: Tables, now: float) -> Iterator[Processor]:
    """The processors whose memory is to be read now."""
    return (processor for processor in tables.processors.values() if _read_at(tables, processor) <= now)


def _read_at(tables: Tables, processor: Processor) -> float:
    state = processor.state
    if state in _UNREAD:
        return inf
    if state is not _IDLE:
        seconds = (tables.settings.memory_bytes - processor.memory_bytes) / FILL_BYTES_PER_SECOND
        return processor.memory_at + min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
    if tables.queue:
        soonest = processor.memory_at + SHORTEST_SECONDS
        return min(max(processor.low_until, soonest), processor.memory_at + LONGEST_SECONDS)
    return processor.memory_at + LONGEST_SECONDS


def awaits_reading(tables: Tables) -> bool:
    """A task could begin in an idle processor, as soon as its memory is known."""
    return any(processor.is_unread and processor.state is _IDLE for processor in tables.processors.values())


def note_memory(tables: Tables, processor: Processor, used_bytes: int, kept_bytes: int, now: float) -> None:
    """One reading."""
    if kept_bytes:
        used_bytes = _without_kept(tables, processor, used_bytes, kept_bytes)
    else:
        processor.gives_back = False
    processor.memory_bytes, processor.memory_at = used_bytes, now
    processor.is_unread = False
    if processor.state in _UNREAD:
        return
    soft = soft_bytes(tables)
    if processor.ended_count:
        _note_bound(processor, soft)
    if used_bytes < soft:
        processor.is_low = True
    processor.is_worn = _is_worn(tables, processor)
    if used_bytes >= tables.settings.memory_bytes and processor.slice:
        _end_over_limit(tables, processor, now)
    elif processor.is_worn and used_bytes >= soft:
        tables.reclaim(processor)  # what waits behind a task that needs so much begins elsewhere


def _without_kept(tables: Tables, processor: Processor, used_bytes: int, kept_bytes: int) -> int:
    """Takes off what is kept, and no more than can be: code of users can write to the page that tells it."""
    if used_bytes >= soft_bytes(tables) and not processor.gives_back:
        processor.gives_back = True
        tables.actions.append(GiveBackKept(processor.number))
    return used_bytes - min(kept_bytes, used_bytes, most_kept_bytes(tables.settings.memory_bytes))


def _note_bound(processor: Processor, soft: int) -> None:
    """Until when the memory is below the soft limit for certain."""
    processor.low_until = processor.memory_at + (soft - processor.memory_bytes) / FILL_BYTES_PER_SECOND


# ---------------------------------------------------------------- which processors get tasks


def room(tables: Tables, processor: Processor) -> int:
    """How many tasks more it may be handed."""
    return tables.settings.tasks_per_processor - processor.ended_count - len(processor.slice)


def note_handed(tables: Tables, processor: Processor) -> None:
    processor.is_worn = _is_worn(tables, processor)


def note_begun(processor: Processor, now: float) -> None:
    """Another task is the first of its slice. A processor that has ended none is as it was started."""
    processor.is_low = now <= processor.low_until
    processor.gives_back = False


def note_idle(tables: Tables, processor: Processor) -> None:
    processor.is_worn = _is_worn(tables, processor)
    if processor.is_worn:
        processor.memory_at = -inf  # what its last task needed may be free again
    if tables.settings.memory_bytes and processor.ended_count:
        _note_bound(processor, soft_bytes(tables))


def _is_worn(tables: Tables, processor: Processor) -> bool:
    """A processor that has ended no task is not: another one would have as much."""
    settings = tables.settings
    if settings.tasks_per_processor and room(tables, processor) <= 0:
        return True
    has_begun_some = processor.ended_count > 0 or bool(processor.slice)
    return settings.memory_bytes > 0 and has_begun_some and processor.memory_bytes >= soft_bytes(tables)


def let_worn_go(tables: Tables, now: float) -> None:
    """Between two tasks. Memory counts as it is after the last one."""
    most = tables.settings.tasks_per_processor
    for processor in tables.processors.values():
        if processor.state is not _IDLE or not processor.is_worn or processor.is_reclaiming:
            continue
        if 0 < most <= processor.ended_count or processor.memory_at > -inf:
            tables.recycled_count += 1
            let_go(tables, processor, now)


def let_go(tables: Tables, processor: Processor, now: float) -> None:
    """An idle processor leaves by itself, or is killed."""
    processor.step(Step.STOP, now)
    processor.kill_at = now + LEAVE_SECONDS
    tables.actions.append(StopProcessor(processor.number))


# ---------------------------------------------------------------- tasks over their limit


def _end_over_limit(tables: Tables, processor: Processor, now: float) -> None:
    task = processor.slice[0]
    used, limit = _size(processor.memory_bytes), _size(tables.settings.memory_bytes)
    tables.actions.append(
        Log(True, f"processor {processor.process_id} is killed: it has {used} of memory, and may have {limit}")
    )
    if task.stop is None:
        if processor.is_low:
            task.stop = StopOrder(STATUS_TIMED_OUT, 0.0, memory_bytes=processor.memory_bytes)
        else:
            processor.is_broken = True
    processor.kill_at = None
    processor.step(Step.STOP, now)
    tables.actions.append(KillProcessor(processor.number))


def over_limit(tables: Tables, task: Task) -> bytes:
    """What the client of a task is told that was stopped because of its memory."""
    assert task.stop is not None
    limit, used = tables.settings.memory_bytes, task.stop.memory_bytes
    text = (
        f"the task was stopped because its process reached {_size(used)} of memory, and a processor of this worker may "
        f"have {_size(limit)}: give the task less to do at a time, or raise --memory-per-processor"
    )
    return tables.settings.encode_error(
        TaskError(
            code=MEMORY_LIMIT,
            type_name="MemoryLimitError",
            message=text,
            peak_memory_bytes=used,
            workers=(tables.settings.worker_name,),
            memory_limit_bytes=limit,
        )
    )


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
