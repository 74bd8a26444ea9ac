"""Which GPUs of the worker a task has while it runs. (`--gpus`, see `scaler_worker.gpus`)

A task that needs `gpu` in an amount has so many GPUs to itself, one that takes any amount (-1) sees all of the
worker's, and one that needs none sees none. Libraries read which devices they may use once in the life of a process,
so a processor has the GPUs of its first task for its life (grouping.py), and *holds* them while it has tasks.

What is held is derived from the processors and kept nowhere else: however a task ends, its GPUs are free with its
processor. A processor that is being stopped still has memory of its GPUs, so no task gets them before it has exited.

The scheduler sends no more tasks than there are GPUs, but for one case: while a task waits for tasks of its own, those
may use what it holds (SCH-47). Then free GPUs are taken first, and those of waiting tasks of the same program next.
"""

from __future__ import annotations

from scaler_protocol.ids import family_in
from scaler_protocol.messages import TaskHeader
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Tables

CAPABILITY = "gpu"

_FREE, _LENT, _BLOCKED, _HELD, _LEAVING = range(5)


def amount_of(header: TaskHeader) -> int:
    """-1: any amount."""
    return next((item.amount for item in header.capabilities if item.name == CAPABILITY), 0)


def choice(tables: Tables, header: TaskHeader) -> tuple[str, ...]:
    """For a processor that has no GPUs yet."""
    ids = tables.settings.gpus
    amount = amount_of(header) if ids else 0
    if amount <= 0:
        return ids if amount else ()
    levels = [_level(tables, header, one, None) for one in ids]
    best = sorted(range(len(ids)), key=levels.__getitem__)[:amount]
    return tuple(ids[index] for index in sorted(best))


def suits(tables: Tables, processor: Processor, header: TaskHeader) -> bool:
    """The GPUs of this processor are as many as the task needs, and no others would be more free."""
    ids, amount = tables.settings.gpus, amount_of(header)
    if not ids:
        return True
    if amount <= 0:
        return processor.gpus == (ids if amount else ())
    if len(processor.gpus) != min(amount, len(ids)):
        return False
    levels = {one: _level(tables, header, one, processor) for one in ids}
    least = sum(sorted(levels.values())[: len(processor.gpus)])
    return sum(levels[one] for one in processor.gpus) <= least


def is_leaving(tables: Tables, gpus: tuple[str, ...]) -> bool:
    """One of these is of a processor that is about to exit."""
    leaving = (processor for processor in tables.processors.values() if processor.state is State.STOPPING)
    return any(one in processor.gpus for processor in leaving for one in gpus)


def _level(tables: Tables, header: TaskHeader, gpu: str, but: Processor | None) -> int:
    """The higher, the less free it is for a task."""
    others = (one for one in tables.processors.values() if one is not but and gpu in one.gpus)
    return max((_level_at(other, header) for other in others), default=_FREE)


def _level_at(processor: Processor, header: TaskHeader) -> int:
    if processor.state is State.STOPPING:
        return _LEAVING
    if not processor.slice:
        return _FREE
    if processor.state is not State.BLOCKED:
        return _HELD
    other = processor.slice[0].header
    is_of_same = family_in(other.owner_grant, other.client) == family_in(header.owner_grant, header.client)
    return _LENT if is_of_same else _BLOCKED
