"""Tasks that wait for tasks: what begins in the places that they lend, and how their children get here.

Chapter 10 of the spec, "Liveness of nesting", proves that nested tasks never stand still. This file keeps the three of
its clauses that are a worker's:

* Room (CRD-9): `keep_room` raises the credit limit while nothing deeper than the waiting tasks is held here.
* Begin (WRK-28): a task deeper than all that are blocked begins at once. Any other task that could become one more
  blocked task begins when nothing deeper has come for a while: its processor is better spent on a child.
* Spare processors (WRK-29): tasks that wait at one depth take at most half of the processors that tasks above them
  leave, so a deeper task always finds one.
"""

from __future__ import annotations

from scaler_protocol.holding.credit import nested_reserve
from scaler_protocol.ids import TaskId
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Tables

_IDLE, _RUNNING, _BLOCKED, _STARTING = State.IDLE, State.RUNNING, State.BLOCKED, State.STARTING

FREE_WAITS = 1
"""So many tasks more than there are places may be blocked before others are held back: one computes its way to its own
children while those of another travel."""
WAIT_SECONDS = 0.01
"""For each blocked task beyond those. A child takes one to several milliseconds to come."""
LONGEST_WAIT_SECONDS = 0.25
SILENT_SECONDS = 0.1
"""A task that has run so long may be waiting for its children without saying so."""
LONGEST_ROOM_SECONDS = 5.0
"""Between two raises while nothing changes: what fills the room in vain is not to gather here."""


def blocked_processors(tables: Tables) -> list[Processor]:
    return [processor for processor in tables.processors.values() if processor.state is _BLOCKED]


def least_depth(tables: Tables, now: float) -> int:
    """Queued tasks of this depth and deeper may begin in a free place now; shallower ones have to wait."""
    blocked = blocked_processors(tables)
    if not blocked:
        return 0
    least = max(_depths(tables)) + 1  # it decides only between depths at which something has begun
    for depth in sorted({0, *(depth + 1 for depth in _depths(tables))}, reverse=True):
        begins_at = _begins_at(tables, blocked, depth)
        if begins_at is None or now < begins_at:
            break
        least = depth
    return least


def begins_at(tables: Tables) -> float | None:
    """When the first of the queue may begin in a free place; None: only when something else has happened."""
    task = tables.queue.first()
    return None if task is None else _begins_at(tables, blocked_processors(tables), task.header.depth)


def _begins_at(tables: Tables, blocked: list[Processor], depth: int) -> float | None:
    count = sum(processor.slice[0].header.depth >= depth for processor in blocked)
    if blocked and not _has_spare(tables, depth):
        return None
    return 0.0 if not count else max(processor.since for processor in blocked) + _wait_seconds(tables, count)


def _depths(tables: Tables) -> list[int]:
    """Of all tasks that have begun."""
    return [processor.slice[0].header.depth for processor in tables.processors.values() if processor.slice]


def _has_spare(tables: Tables, depth: int) -> bool:
    """One more task of this depth leaves as many processors to deeper ones as there are tasks so deep: each of them may
    come to wait for a child."""
    depths = _depths(tables)
    as_deep = sum(other >= depth for other in depths)
    return not as_deep or tables.settings.max_processors - len(depths) > as_deep


def _wait_seconds(tables: Tables, count: int) -> float:
    """How long the place of the last of so many blocked tasks is kept for their children."""
    beyond = count - tables.settings.places - FREE_WAITS
    return min(beyond * WAIT_SECONDS, LONGEST_WAIT_SECONDS) if beyond > 0 else 0.0


def is_deepest(tables: Tables, depth: int) -> bool:
    """No blocked task is so deep: what waits for this one can never lend it a processor."""
    return all(processor.slice[0].header.depth < depth for processor in blocked_processors(tables))


def lenders(tables: Tables) -> tuple[TaskId, ...]:
    """The blocked tasks that take an amount of something: what descends from them may take it meanwhile (SCH-47)."""
    firsts = [processor.slice[0] for processor in blocked_processors(tables)]
    return tuple([task.id for task in firsts if any(item.amount > 0 for item in task.header.capabilities)])


def keep_room(tables: Tables, now: float) -> None:
    """Raise the floor of the limit when that is due, and lower it as tasks end."""
    room = tables.room
    depth, since = _waiting(tables)
    due_at = room_due_at(tables)
    if due_at is not None and now >= due_at:
        is_new = room.raised_at < since
        room.pause_seconds = SILENT_SECONDS if is_new else min(2 * room.pause_seconds, LONGEST_ROOM_SECONDS)
        room.floor = len(tables.tasks)
        room.raised_at = now
    is_waiting = depth >= 0 and now >= since
    room.floor = min(room.floor, len(tables.tasks)) if is_waiting else 0


def room_due_at(tables: Tables) -> float | None:
    """When room has to be made. None: there is some, or it is of no use."""
    if tables.takes_none or len(tables.tasks) < tables.sent_credit + nested_reserve(tables.settings.places):
        return None
    depth, since = _waiting(tables)
    first = tables.queue.first()
    if depth < 0 or (first is not None and first.header.depth > depth):
        return None
    room = tables.room
    return since if room.raised_at < since else room.raised_at + room.pause_seconds


def _waiting(tables: Tables) -> tuple[int, float]:
    """The greatest depth of a task that waits, and since when the last of them does. A depth of -1: none waits."""
    waiting = [(processor.slice[0].header.depth, processor.since) for processor in blocked_processors(tables)]
    if not waiting:
        waiting = [
            (processor.slice[0].header.depth, processor.first_since + SILENT_SECONDS)
            for processor in tables.processors.values()
            if processor.state is _RUNNING
        ]
    if not waiting:
        return -1, 0.0
    return max(depth for depth, _ in waiting), max(since for _, since in waiting)
