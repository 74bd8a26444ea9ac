"""Which processor may run which task: a process that has imported one code set runs no tasks of another. (WRK-50)

A *group* is all tasks of one family with one code set; tasks without a code set are one group. A processor belongs to
the group of the first task that it is handed, for its life. What it has imported would be found by the tasks of others,
under the same names and with other contents. So another group's task gets another processor: one that waits for it, a
new one, or the one that is started in place of an idle processor of a third group.

While no task has ever had a code set, none of this is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import family_in
from scaler_protocol.messages import TaskHeader
from scaler_worker.core import recycling
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import SPARE_PROCESSORS, Tables

_NO_GROUP = b""


def group_of(header: TaskHeader) -> bytes:
    if not header.code_set:
        return _NO_GROUP
    return header.code_set + family_in(header.owner_grant, header.client)


def note_code_set(tables: Tables) -> None:
    """The first task with one has come: what has run until now ran without."""
    if not tables.is_grouped:
        tables.is_grouped = True
        for processor in tables.processors.values():
            if processor.last_number:
                processor.group = _NO_GROUP


def takes(tables: Tables, processor: Processor, task: Task) -> bool:
    """An idle processor may be handed this task. A fresh one is kept while another idle one is of the task's group."""
    group = group_of(task.header)
    if processor.group is not None:
        return processor.group == group
    return not any(other.group == group for other in available(tables))


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
    group = group_of(task.header)
    return sum(
        processor.state in (State.IDLE, State.STARTING) and processor.group in (None, group)
        for processor in tables.processors.values()
    )


def make_room(tables: Tables, now: float) -> None:
    """Processors are about to be started for the first task of the queue. Of those that cannot take it some spare ones
    stay, for as long as any idle ones do; but none where it keeps out the new one."""
    task = tables.queue.first()
    if not tables.is_grouped or task is None:
        return
    group = group_of(task.header)
    others = [one for one in available(tables) if one.group is not None and one.group != group]
    others.sort(key=lambda processor: processor.since)
    is_full = len(tables.processors) >= tables.settings.max_processors
    for processor in others[: max(len(others) - SPARE_PROCESSORS, int(is_full))]:
        recycling.let_go(tables, processor, now)


def has_others(tables: Tables, task: Task) -> bool:
    """Some processor is idle that cannot take this task: another can be started in its place."""
    return tables.is_grouped and any(one.group != group_of(task.header) for one in available(tables))
