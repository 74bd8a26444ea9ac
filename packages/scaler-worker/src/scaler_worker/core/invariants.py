"""What must hold after every event. Tests and the simulator call `check`; it derives every index anew."""

from __future__ import annotations

from scaler_protocol.holding.credit import nested_reserve
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_worker.core import deadlines, devices, grouping, handing, nesting
from scaler_worker.core.agent import AgentCore
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Tables

_WITHOUT_SLICE = (State.STARTING, State.IDLE)
_WITH_SLICE = (State.RUNNING, State.BLOCKED, State.RESUMING)


def check(core: AgentCore) -> None:
    tables = core.tables
    _check_tasks(tables)
    for processor in tables.processors.values():
        _check_processor(processor)
        if tables.is_grouped and processor.last_number:
            _check_group(tables, processor)
    assert len(tables.processors) <= tables.settings.max_processors
    assert not (tables.is_draining and len(tables.queue)), "a draining worker has handed back its queue"
    _check_liveness(tables)
    is_kept = tables.is_connected or tables.presenting.until is not None
    assert is_kept or not tables.tasks, "without a session nothing is held, unless it is kept for another scheduler"
    assert tables.is_connected or not tables.presenting.may_begin, "without a session nothing begins"
    assert tables.presenting.until is None or not tables.is_connected, "what is held has been presented, or dropped"
    assert not tables.actions, "actions are returned with the event that caused them"
    goes_on = tables.count(State.STARTING, State.STOPPING) or tables.start_not_before > 0
    assert not tables.trouble or goes_on or tables.is_draining, "a worker in trouble tries to get out of it"
    if tables.is_quiet():
        assert deadlines.next_deadline(tables) is None, "what is quiet waits for no time"
        assert tables.count(State.IDLE) >= handing.wanted_processors(tables), "what is quiet starts no processor"


def _check_group(tables: Tables, processor: Processor) -> None:
    groups = {grouping.group_of(tables, task.header) for task in processor.slice}
    assert groups <= {processor.group}, "a processor has tasks of one group (WRK-50, WRK-70)"
    ids = tables.settings.gpus
    for amount in {devices.amount_of(task.header) for task in processor.slice} if ids else ():
        assert len(processor.gpus) == (len(ids) if amount < 0 else min(amount, len(ids))), "tasks see what they need"


def _check_liveness(tables: Tables) -> None:
    """If a task is blocked and nothing else goes on, a deeper task can come or there is a deadline (CRD-9). A queued
    task that is deeper than all blocked ones begins, or there is a deadline (WRK-28)."""
    blocked = nesting.blocked_processors(tables)
    goes_on = tables.count(State.RUNNING, State.RESUMING, State.STARTING, State.STOPPING)
    if not blocked or goes_on or not tables.presenting.may_begin or tables.is_draining:
        return
    if deadlines.next_deadline(tables) is not None:
        return
    assert len(tables.tasks) < tables.sent_credit + nested_reserve(tables.settings.places), "no deeper task can come"
    first = tables.queue.first()
    assert first is None or not nesting.is_deepest(tables, first.header.depth), "a deeper task could begin and does not"


def _check_tasks(tables: Tables) -> None:
    queued, waiting = list(tables.queue), list(tables.ahead.waiting.values())
    sliced = [task for processor in tables.processors.values() for task in processor.slice]
    assert len(queued) == len(tables.queue)
    held = queued + waiting + sliced
    assert sorted(task.id for task in held) == sorted(tables.tasks), "every task is in exactly one place"
    assert all(tables.tasks[task.id] is task for task in held)
    assert all(task.processor is None and task.stop is None for task in queued + waiting)
    _check_ahead(tables, queued, waiting)
    ranks = [(-task.header.depth, -task.header.priority) for task in queued]
    assert ranks == sorted(ranks), "deeper first, then by priority"


def _check_ahead(tables: Tables, queued: list[Task], waiting: list[Task]) -> None:
    assert all(task.awaits for task in waiting) and not any(task.awaits for task in queued)
    awaited: dict[TaskId, dict[TaskId, Task]] = {}
    for task in tables.tasks.values():
        for other in task.awaits or ():
            awaited.setdefault(other, {})[task.id] = task
    assert awaited == tables.ahead.followers, "`followers` are other tasks than those that await some"
    assert awaited.keys() <= tables.tasks.keys(), "a task is awaited that is not here"
    for processor in tables.processors.values():
        before: set[TaskId] = set()
        for task in processor.slice:
            assert before.issuperset(task.awaits or ()), "a task in a slice awaits what does not run before it there"
            before.add(task.id)


def _check_processor(processor: Processor) -> None:
    numbers = [task.number for task in processor.slice]
    assert numbers == sorted(set(numbers)) and all(number <= processor.last_number for number in numbers)
    assert all(task.processor == processor.number for task in processor.slice)
    if processor.state in _WITHOUT_SLICE:
        assert not processor.slice and not processor.is_extra
    if processor.state in _WITH_SLICE:
        assert processor.slice
    if processor.is_waiting:
        assert len(processor.slice) == 1, "the rest of a blocked slice is in the queue"
    if processor.state is State.RUNNING and any(task.stop is not None for task in list(processor.slice)[1:]):
        assert processor.is_reclaiming, "a canceled task that has not begun is taken back"
    if processor.kill_at is not None:
        is_leaving = processor.state is State.STOPPING and not processor.slice
        is_stopped = bool(processor.slice) and processor.slice[0].stop is not None
        assert is_leaving or is_stopped, "only a processor that leaves, or whose task is stopped, is killed"
    assert processor.state is not State.EXITED
