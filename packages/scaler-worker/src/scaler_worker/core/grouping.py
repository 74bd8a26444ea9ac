"""Which processor may run which task: a process that has run tasks of one user runs no tasks of another (WRK-70), and
one that has imported one code set runs no tasks of another code set (WRK-50).

A *group* is all tasks of one family with one code set, or all tasks of one user without a code set. A processor belongs
to the group of the first task that it is handed, for its life. What its tasks have imported or changed would be found
by the tasks of others: a module of the same name, a variable of the environment, another `divmod` in `builtins`. So a
task of another group gets another processor: one that waits for it, a new one, or the one that is started in place of
an idle processor of a third group.

Where a worker has GPUs, a processor has some of them for its life, too, and runs tasks that need so many (devices.py).

While all tasks have been of one user and without a code set, and there are no GPUs, none of this is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import USER_BYTES, family_in
from scaler_protocol.messages import TaskHeader
from scaler_worker.core import devices, recycling
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import SPARE_PROCESSORS, Tables

_NO_GROUP = b""


def group_of(tables: Tables, header: TaskHeader) -> bytes:
    if header.code_set:
        return header.code_set + family_in(header.owner_grant, header.client)
    return _user_of(tables, header)


def _user_of(tables: Tables, header: TaskHeader) -> bytes:
    """Returns what families of one user have in common (HSK-43). Empty: there are no keys, or processors are shared."""
    if tables.settings.shares_processors:
        return _NO_GROUP
    return family_in(header.owner_grant, header.client)[:USER_BYTES]


def note(tables: Tables, header: TaskHeader) -> None:
    """Begins to group the processors if tasks have come that are not like all before them. Those before were of one
    user and without a code set."""
    if tables.is_grouped:
        return
    user = _user_of(tables, header)
    if tables.user is None:
        tables.user = user
    if user == tables.user and not header.code_set:
        return
    tables.is_grouped = True
    for processor in tables.processors.values():
        if processor.last_number:
            processor.group = tables.user


def join(tables: Tables, processor: Processor, task: Task) -> tuple[str, ...] | None:
    """It is about to be handed this task. If that is its first one: the GPUs that it has from now on."""
    if processor.group is not None:
        return None
    processor.group = group_of(tables, task.header)
    processor.gpus = devices.choice(tables, task.header)
    return processor.gpus if tables.settings.gpus else None


def is_for(tables: Tables, processor: Processor, header: TaskHeader) -> bool:
    """It has run tasks, and such tasks are what it is for."""
    return processor.group == group_of(tables, header) and devices.suits(tables, processor, header)


def takes(tables: Tables, processor: Processor, task: Task) -> bool:
    """An idle processor may be handed this task. A fresh one is kept while another idle one is of the task's group."""
    header = task.header
    if processor.group is not None:
        return is_for(tables, processor, header) and not devices.is_leaving(tables, processor.gpus)
    if devices.is_leaving(tables, devices.choice(tables, header)):
        return False
    return not any(is_for(tables, other, header) for other in available(tables))


class Slice:
    """Tasks for one processor: those that it is for, or, if it is fresh, that are like the first."""

    def __init__(self, tables: Tables, processor: Processor) -> None:
        self._tables = tables
        self._processor = processor
        self._kind: tuple[bytes, int] | None = None

    def takes(self, header: TaskHeader) -> bool:
        if self._processor.group is not None:
            return is_for(self._tables, self._processor, header)
        kind = group_of(self._tables, header), devices.amount_of(header) if self._tables.settings.gpus else 0
        self._kind = self._kind or kind
        return self._kind == kind


def available(tables: Tables) -> Iterator[Processor]:
    """Those that could be handed a task now."""
    for processor in tables.processors.values():
        if processor.state is State.IDLE and not processor.is_reclaiming and not processor.is_worn:
            yield processor


def first_for(tables: Tables, task: Task) -> Processor | None:
    """An idle processor for this task."""
    if not tables.is_grouped:
        return next(available(tables), None)
    return next((processor for processor in available(tables) if takes(tables, processor, task)), None)


def ready_count(tables: Tables) -> int:
    """How many processors that are idle, or will be when they have started, could take the first task of the queue."""
    task = tables.queue.first()
    if not tables.is_grouped or task is None:
        return tables.count(State.IDLE, State.STARTING)
    return sum(
        processor.state in (State.IDLE, State.STARTING)
        and (processor.group is None or is_for(tables, processor, task.header))
        for processor in tables.processors.values()
    )


def make_room(tables: Tables, now: float) -> None:
    """Processors are about to be started for the first task of the queue. Of those that cannot take it some spare ones
    stay, for as long as any idle ones do; but none where it keeps out the new one."""
    task = tables.queue.first()
    if not tables.is_grouped or task is None:
        return
    header = task.header
    others = [one for one in available(tables) if one.group is not None and not is_for(tables, one, header)]
    others.sort(key=lambda processor: processor.since)
    is_full = len(tables.processors) >= tables.settings.max_processors
    for processor in others[: max(len(others) - SPARE_PROCESSORS, int(is_full))]:
        recycling.let_go(tables, processor, now)


def has_others(tables: Tables, task: Task) -> bool:
    """Some processor is idle that cannot take this task: another can be started in its place."""
    return tables.is_grouped and any(not is_for(tables, one, task.header) for one in available(tables))
