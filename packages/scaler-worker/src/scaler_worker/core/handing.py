"""Who runs next: places, processors and slices.

A *place* is the right to run; a worker has `places` of them (one, usually). A processor that runs holds a place, one
that is blocked has lent it to others and must get one again before it goes on. So a task that waits for its children
never keeps them from running (WRK-6), and no more tasks than places compute at once.

But what has borrowed a place may run for hours, or for ever, and have nothing to do with the task that lent it. So a
task that wants to go on waits for a bounded time, and then goes on beside the others (WRK-67): the worker is
oversubscribed until one of them has ended, for every task that runs counts when it is asked whether a place is free.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler_protocol.codes import KIND_INLINE, STATUS_REFUSED, TOO_DEEP
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import TaskError, TaskHeader
from scaler_worker.core import grouping, nesting, recycling
from scaler_worker.core.actions import NO_NUMBERS, HandOver, Resume, StartProcessor
from scaler_worker.core.processors import Processor, State, Step
from scaler_worker.core.stopping import begin_first
from scaler_worker.core.tables import SPARE_PROCESSORS, Tables

_IDLE, _BLOCKED, _RESUMING = State.IDLE, State.BLOCKED, State.RESUMING

SLICE_SECONDS = 0.01
"""Short tasks are handed over several at once, about this much work: the agent wakes once for hundreds of them."""
LONGEST_SLICE_SECONDS = 0.03
SLICE_TASKS_WANTED = 30
"""Of tasks that are not so short a slice has fewer. It may be longer, so that it has some; but a long one of very tiny
tasks would leave its processor idle, for their durations are known less well."""
SLICE_TASKS = 2000
SLICE_BYTES = 128 * 1024
"""Fits the channel's buffer, so that handing over rarely has to wait for the processor to read."""
STUCK_SECONDS = 2 * LONGEST_SLICE_SECONDS
"""A first task that runs this long was not tiny after all: what waits behind it is taken back."""
OVERLONG_SECONDS = 4 * LONGEST_SLICE_SECONDS
"""A slice that has so much work left, as two reports in a row say, is no slice: its estimate was of another time."""
RESUME_SECONDS = 0.1
"""The wait of a task whose children have ended for a place, before the task goes on without one. The wait is twice as
long for each task that runs beyond the places already, so that not many compute at once where tasks are merely long."""
LONGEST_RESUME_SECONDS = 5.0
FALLBACK_SECONDS = 0.1
"""How long a deeper task waits behind a running shallower one that has not said it is blocked."""
REFUSE_SECONDS = 30.0
"""How long it waits when, besides, no further processor may be started: then the answer is an error, not a hang."""
IDLE_SECONDS = 10.0


def slice_seconds(estimate: float) -> float:
    """How much work of such tasks a slice has."""
    return min(max(SLICE_SECONDS, SLICE_TASKS_WANTED * estimate), LONGEST_SLICE_SECONDS)


def hand_out(tables: Tables, now: float) -> None:
    """Give every free place to a task that wants to go on, else to the first of the queue."""
    _grant_resumes(tables, now)
    if (len(tables.queue) or tables.ahead.waiting) and tables.presenting.may_begin and not tables.is_draining:
        least_depth = nesting.least_depth(tables, now)
        _fill_places(tables, least_depth, now)
        _top_up(tables, least_depth, now)
        _fall_back(tables, now)
    _start_processors(tables, now)


def hand_out_at_once(tables: Tables, now: float) -> None:
    """Before the round is over: what follows a dispatch in the same round is seldom of concern for its tasks, and the
    agent's own chores are done while the processor works already."""
    least_depth = 0
    for processor in tables.processors.values():
        if processor.state is _RESUMING:
            return
        if processor.state is _BLOCKED:
            least_depth = nesting.least_depth(tables, now)
    _fill_places(tables, least_depth, now)
    if tables.is_grouped:
        _start_processors(tables, now)


def _grant_resumes(tables: Tables, now: float) -> None:
    waiting = [p for p in tables.processors.values() if p.state is State.RESUMING]
    if not waiting:
        return
    # Deeper first, as in the queue: a task that runs waits for the deeper one.
    waiting.sort(key=lambda p: (-p.slice[0].header.depth, p.since))
    for processor in waiting:
        # An interrupted task only wants to unwind: making it wait for a place could outlast its grace.
        if tables.free_places() > 0 or processor.slice[0].stop is not None:
            _grant(tables, processor, now)
    due_at = resume_due_at(tables)
    if due_at is not None and now >= due_at:
        tables.resumed_at = now
        processor = _longest_waiting(tables)
        processor.is_extra = True
        _grant(tables, processor, now)


def _grant(tables: Tables, processor: Processor, now: float) -> None:
    processor.step(Step.GRANT, now)
    tables.actions.append(Resume(processor.number))


def _longest_waiting(tables: Tables) -> Processor:
    return min((p for p in tables.processors.values() if p.state is _RESUMING), key=lambda processor: processor.since)


def resume_due_at(tables: Tables) -> float | None:
    """Returns when one more task goes on beyond the places. None: no task waits for one. (WRK-67)

    One task at a time, the longest waiting first. No task waits for ever, and no process is started for it: at most as
    many run as the worker has processors.
    """
    if not tables.count(_RESUMING):
        return None
    beyond = min(max(-tables.free_places(), 0), 10)
    wait_seconds = min(RESUME_SECONDS * 2.0**beyond, LONGEST_RESUME_SECONDS)
    return max(_longest_waiting(tables).since, tables.resumed_at) + wait_seconds


def _fill_places(tables: Tables, least_depth: int, now: float) -> None:
    free = tables.free_places()
    for processor in tables.processors.values():
        if free <= 0 or not tables.queue:
            return
        if processor.state is not _IDLE or processor.is_reclaiming or processor.is_worn:
            continue
        if tables.is_grouped and not _takes_first(tables, processor):
            continue
        if now > processor.low_until:
            processor.is_unread = True
            continue
        _hand_slice(tables, processor, -(-len(tables.queue) // free), least_depth, now)
        free -= 1


def _takes_first(tables: Tables, processor: Processor) -> bool:
    task = tables.queue.first()
    return task is not None and grouping.takes(tables, processor, task)


def _top_up(tables: Tables, least_depth: int, now: float) -> None:
    """Add to a slice before it runs out, so that its processor never waits for the agent."""
    for processor in tables.processors.values():
        if processor.state is not State.RUNNING or processor.is_reclaiming or processor.is_worn or processor.is_extra:
            continue
        most = slice_seconds(processor.slice[0].estimate_seconds)
        if processor.outstanding_seconds < most / 2 and now - processor.first_since < most:
            _hand_slice(tables, processor, len(tables.queue), least_depth, now)


def _hand_slice(tables: Tables, processor: Processor, limit: int, least_depth: int, now: float) -> None:
    """Tasks of at least this depth."""
    was_empty = not processor.slice
    tasks = _take_slice(tables, processor, limit, least_depth)
    if not tasks:
        return
    gpus = grouping.join(tables, processor, tasks[0]) if tables.is_grouped else None
    processor.step(Step.HAND_OVER, now)
    for task in tasks:
        processor.last_number += 1
        task.number = processor.last_number
        task.processor = processor.number
    processor.slice.extend(tasks)
    if tables.recycles:
        recycling.note_handed(tables, processor)
    tables.actions.append(HandOver(processor.number, tuple(tasks), _numbers_awaited(tables, tasks), gpus))
    if was_empty:
        begin_first(tables, processor, now)


def _numbers_awaited(tables: Tables, tasks: list[Task]) -> Mapping[TaskId, int]:
    if not tables.ahead.followers:
        return NO_NUMBERS
    return {other: tables.tasks[other].number for task in tasks for other in task.awaits or ()}


def _take_slice(tables: Tables, processor: Processor, limit: int, least_depth: int) -> list[Task]:
    """Up to `slice_seconds` of work; a task of unknown duration, or with a timeout to be watched, goes alone."""
    if len(tables.queue) == 1 and not processor.slice and not tables.ahead.waiting and not least_depth:
        return [_take_only(tables, processor)]
    most = recycling.room(tables, processor) if tables.settings.tasks_per_processor else SLICE_TASKS
    budget = _Budget(tables, processor, min(limit, most, SLICE_TASKS), least_depth)
    taken = tables.queue.take(budget.accepts)
    if tables.ahead.waiting:
        budget.raise_count(min(most, SLICE_TASKS) - len(taken))
        _take_followers(tables, processor, taken, budget)
    processor.outstanding_seconds = budget.seconds
    return taken


def _take_only(tables: Tables, processor: Processor) -> Task:
    """No other task waits, and the processor has nothing: there is nothing to weigh."""
    task = tables.queue.pop()
    estimate = None if task.header.timeout_seconds > 0 else tables.durations.estimate(task.function)
    task.estimate_seconds = processor.outstanding_seconds = LONGEST_SLICE_SECONDS if estimate is None else estimate
    return task


def _take_followers(tables: Tables, processor: Processor, taken: list[Task], budget: _Budget) -> None:
    """What can run behind tasks of this slice, with their results from the processor's own memory."""
    known = [*list(processor.slice)[-1:], *taken]
    for follower in tables.ahead.ready_behind(known):
        if not budget.accepts(follower):
            return
        del tables.ahead.waiting[follower.id]
        known.append(follower)
        taken.append(follower)


class _Budget:
    """What may still go into a slice. `accepts` is called for every task, so it keeps what batches have in common."""

    def __init__(self, tables: Tables, processor: Processor, limit: int, least_depth: int) -> None:
        #: the work in the slice so far, and how much of it there may be when another such task is to be added
        self.seconds = processor.outstanding_seconds
        self._most_seconds = 0.0
        self._bytes = SLICE_BYTES
        self._count = limit
        self._is_empty = not processor.slice
        self._least_depth = least_depth
        self._estimate_of = tables.durations.estimate
        self._group = grouping.Slice(tables, processor) if tables.is_grouped else None
        self._header: TaskHeader | None = None
        self._function: ObjectId | None = None
        self._estimate: float | None = None

    def raise_count(self, count: int) -> None:
        """What follows others runs behind them: it is not to be shared out among free places."""
        self._count = count

    def accepts(self, task: Task) -> bool:
        if task.function is not self._function or task.header is not self._header:
            if task.header.depth < self._least_depth or (self._group and not self._group.takes(task.header)):
                return False
            self._function, self._header = task.function, task.header
            self._estimate = None if task.header.timeout_seconds > 0 else self._estimate_of(task.function)
            self._most_seconds = slice_seconds(self._estimate or 0.0)
        if self.seconds >= self._most_seconds or self._bytes <= 0 or self._count <= 0:
            return False
        if self._estimate is None:
            if not self._is_empty:
                return False
            self.seconds = task.estimate_seconds = LONGEST_SLICE_SECONDS
        else:
            self.seconds += self._estimate
            task.estimate_seconds = self._estimate
        self._is_empty = False
        self._count -= 1
        parts = task.parts
        self._bytes -= len(parts) if type(parts) is bytes else task.part_bytes
        return True


def _fall_back(tables: Tables, now: float) -> None:
    """Run a deeper task although no place is free: the running one may well be waiting for it without saying so."""
    due_at = fallback_at(tables)
    if due_at is None or now < due_at:
        return
    task = tables.queue.first()
    assert task is not None
    idle = grouping.first_for(tables, task)
    if idle is None:
        _refuse_first(tables)
        return
    idle.is_extra = True
    _hand_slice(tables, idle, 1, 0, now)


def fallback_at(tables: Tables) -> float | None:
    """When the first queued task runs beyond the places, or is refused. None: something else must happen first."""
    task = tables.queue.first()
    if task is None or not _is_held_up(tables, task):
        return None
    if grouping.first_for(tables, task) is not None:
        return task.queued_at + FALLBACK_SECONDS if tables.free_places() <= 0 else None
    if len(tables.processors) < tables.settings.max_processors or grouping.has_others(tables, task):
        return None  # one is being started for it
    if tables.count(State.STARTING, State.STOPPING):
        return None  # one has been, or makes room for one
    if not nesting.is_deepest(tables, task.header.depth):
        return None  # processors come free as those that are as deep go on; what they wait for is deeper
    is_hopeless = all(processor.is_waiting for processor in tables.processors.values())
    return task.queued_at + (FALLBACK_SECONDS if is_hopeless else REFUSE_SECONDS)


def held_back_until(tables: Tables) -> float | None:
    """When the first queued task may begin in the free place that is kept for a deeper one. (WRK-28)"""
    task = tables.queue.first()
    if task is None or tables.free_places() <= 0 or grouping.first_for(tables, task) is None:
        return None
    return nesting.begins_at(tables)


def _is_held_up(tables: Tables, task: Task) -> bool:
    """True when only shallower tasks compute, so that one of them may be its ancestor."""
    running = [p.slice[0] for p in tables.processors.values() if p.state is State.RUNNING]
    return task.header.depth > 0 and all(other.header.depth < task.header.depth for other in running)


def _refuse_first(tables: Tables) -> None:
    """Every processor waits for children and no more may be started: an error beats a hang (WRK-7)."""
    task = tables.queue.first()
    assert task is not None
    text = (
        f"task nested too deep: all {tables.settings.max_processors} processors of worker "
        f"{tables.settings.worker_name} are held by tasks that wait for their children; "
        f"raise --max-processors, add workers, or nest less deeply"
    )
    tables.queue.remove(task)
    tables.forget(task)
    value = tables.settings.encode_error(TaskError(code=TOO_DEEP, type_name="NestingTooDeepError", message=text))
    tables.results.add(task.id, task.attempt, STATUS_REFUSED, KIND_INLINE, value, task.header)


def wanted_processors(tables: Tables) -> int:
    """Every free place has a processor that could take it at once, and each that runs its last task has a successor; a
    deeper task that is held up has one more."""
    task = tables.queue.first()
    wanted = max(tables.free_places(), 0)
    if tables.recycles:
        wanted += sum(p.is_worn and p.state is State.RUNNING for p in tables.processors.values())
    if wanted == 0 and (tables.trouble or (task is not None and _is_held_up(tables, task))):
        wanted = 1  # in trouble: to find out when starting works again
    return wanted


def _start_processors(tables: Tables, now: float) -> None:
    if tables.is_draining or now < tables.start_not_before:
        return
    tables.start_not_before = 0.0
    wanted = wanted_processors(tables)
    if not wanted:
        return
    available = grouping.ready_count(tables)
    if wanted > available:
        grouping.make_room(tables, now)
    room = tables.settings.max_processors - len(tables.processors)
    for _ in range(min(wanted - available, room)):
        tables.last_processor += 1
        tables.processors[tables.last_processor] = Processor(tables.last_processor, now)
        tables.actions.append(StartProcessor(tables.last_processor))


def note_pace(processor: Processor, seconds: float) -> None:
    """Tasks that have just ended took so long on average. One report may be of a moment when the machine was busy."""
    processor.slow_reports = processor.slow_reports + 1 if seconds * len(processor.slice) > OVERLONG_SECONDS else 0


def reclaim_stuck(tables: Tables, now: float) -> None:
    """Take back what waits behind tasks that turned out long; then others, or other workers, can run it."""
    for processor in tables.processors.values():
        is_slow = processor.slow_reports > 1 or now >= processor.first_since + STUCK_SECONDS
        if is_slow and processor.can_give_back:
            processor.slow_reports = 0
            tables.reclaim(processor)


def stop_surplus(tables: Tables, now: float) -> None:
    """Processors that deep nesting needed leave again when they have been idle for a while."""
    for processor in surplus_processors(tables):
        if now >= processor.since + IDLE_SECONDS:
            recycling.let_go(tables, processor, now)


def surplus_processors(tables: Tables) -> list[Processor]:
    """Those idle beyond the places and some spare ones: the longest idle first."""
    if len(tables.processors) <= tables.settings.places + SPARE_PROCESSORS:
        return []
    idle = sorted(grouping.available(tables), key=lambda processor: processor.since)
    return idle[: max(len(idle) - tables.settings.places - SPARE_PROCESSORS, 0)]
