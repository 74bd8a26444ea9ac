"""Who begins next: places, and the objects that a task needs before it can.

The base concurrency is the number of places. A task holds one until Symphony has answered for it, for there it holds a
service instance: a task that waits for its children has nothing to lend. So that those can run all the same, a task
that is deeper than everything that runs begins without a place. Then something always moves: of those that run the
deepest wait for no task, or for a task in the queue that may begin. Besides the base concurrency this takes one
instance for each level of nesting, and no more. (WRK-6)
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.codes import KIND_INLINE, STATUS_REFUSED
from scaler_protocol.holding.credit import Load, credit_limit, nested_reserve
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, Owner, family_in
from scaler_protocol.messages import Credit, TaskError
from scaler_symphony.core.actions import Fetch, SendTask
from scaler_symphony.core.tables import Run, Tables

KEPT_OBJECTS = 1024
KEPT_BYTES = 64 * 1024 * 1024

RESERVE_STEP = 16

TIMEOUT_FACTOR = 2.0
TIMEOUT_MARGIN_SECONDS = 5.0
"""The service counts the time of a task from its beginning, and stops it if its code lets it. We report it in any case,
but later. Symphony does not tell when a task begins, nor when it begins again because its host was taken away: so we
wait for the time of two runs, and this margin. (WRK-14)"""


def has_place(tables: Tables, depth: int) -> bool:
    if len(tables.runs) < tables.settings.base_concurrency:
        return True
    return all(run.task.header.depth < depth for run in tables.runs.values())


def begin(tables: Tables, now: float) -> None:
    """Send what may be sent, in the order of the queue. A task that waits for its function does not hold up others."""
    if not _may_send(tables, now):
        return
    tables.send_not_before = 0.0
    for task in list(tables.queue):
        if not has_place(tables, task.header.depth):
            return  # nor has any that follows: they are no deeper
        if _is_complete(tables, task):
            tables.queue.remove(task)
            _send(tables, task, now)


def _may_send(tables: Tables, now: float) -> bool:
    is_ready = tables.presenting.may_begin and tables.session.is_open and not tables.is_draining
    return is_ready and now >= tables.send_not_before


def _send(tables: Tables, task: Task, now: float) -> None:
    tables.last_run += 1
    run = Run(tables.last_run, task, now)
    if task.header.timeout_seconds > 0:
        run.timeout_at = now + TIMEOUT_FACTOR * task.header.timeout_seconds + TIMEOUT_MARGIN_SECONDS
    tables.runs[run.number] = run
    brought: dict[ObjectId, bytes] = {}
    family = _family(task)
    for object_id in _needs(task):
        tables.objects.move_to_end((family, object_id))
        content = tables.objects[family, object_id]
        if content is not None:
            brought[object_id] = content
    tables.actions.append(SendTask(tables.session.number, run.number, task, brought))


# ---------------------------------------------------------------- functions and serializers


def _needs(task: Task) -> Iterator[ObjectId]:
    yield task.function
    if task.header.serializer:
        yield task.header.serializer


def _family(task: Task) -> bytes:
    """What was fetched for one is not for the tasks of another, which may only know its id. (WRK-43)"""
    return family_in(task.header.owner_grant, task.header.client)


def _is_complete(tables: Tables, task: Task) -> bool:
    """Its function and serializer are here; else they are on their way from now on."""
    family = _family(task)
    missing = [object_id for object_id in _needs(task) if (family, object_id) not in tables.objects]
    for object_id in missing:
        if (family, object_id) not in tables.fetching:
            tables.fetching.add((family, object_id))
            tables.actions.append(Fetch(object_id, Owner(task.header.client, task.header.owner_grant)))
    return not missing


def keep(tables: Tables, family: bytes, object_id: ObjectId, content: bytes | None) -> None:
    tables.fetching.discard((family, object_id))
    tables.objects[family, object_id] = content
    tables.object_bytes += len(content or b"")
    while len(tables.objects) > KEPT_OBJECTS or (tables.object_bytes > KEPT_BYTES and len(tables.objects) > 1):
        _, dropped = tables.objects.popitem(last=False)
        tables.object_bytes -= len(dropped or b"")


def refuse(tables: Tables, family: bytes, object_id: ObjectId, code: int, text: str) -> None:
    """What cannot be fetched for this family cannot be run. (WRK-3)"""
    tables.fetching.discard((family, object_id))
    value = tables.settings.encode_error(TaskError(code, "TaskFailed", text))
    for task in [task for task in tables.queue if object_id in _needs(task) and _family(task) == family]:
        tables.queue.remove(task)
        tables.forget(task)
        tables.results.add(task.id, task.attempt, STATUS_REFUSED, KIND_INLINE, value, task.header)


# ---------------------------------------------------------------- credit


def credit(tables: Tables, now: float) -> Credit:
    """None without a session: then others of the cluster are the better place."""
    places = tables.settings.base_concurrency
    load = Load(
        places=places,
        queue_size=tables.settings.queue_size,
        mean_seconds=tables.durations.overall,
        running_seconds=max((now - run.begun_at for run in tables.runs.values()), default=0.0),
        lent_places=max(len(tables.runs) - places, 0),
    )
    is_willing = tables.session.is_open and not tables.is_draining
    return Credit(credit_limit(load), _nested_reserve(tables)) if is_willing else Credit(0, 0)


def _nested_reserve(tables: Tables) -> int:
    """There is always room for one more nested task, whatever is held: it may be what all others wait for, and those
    that are queued here do not begin before it has ended. In steps, for each is a message. (CRD-5)"""
    nested_count = sum(task.header.depth > 0 for task in tables.tasks.values())
    steps = -(-nested_count // RESERVE_STEP)
    return nested_reserve(tables.settings.base_concurrency) + steps * RESERVE_STEP


def excess(tables: Tables) -> list[Task]:
    """What is more than a queue may hold, and would begin last: others may have it. (WRK-20)"""
    if len(tables.queue) <= tables.settings.queue_size:
        return []
    unbegun = [task for task in tables.queue if task.id not in tables.mishaps]
    return unbegun[tables.settings.queue_size * 3 // 4 :]
