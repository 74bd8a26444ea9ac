"""What a worker holds outlives its scheduler: it is presented to the next one. (WRK-10, WRK-33 to WRK-40)

Theory of operation. When the session is lost, the worker cannot tell whether the scheduler has died or has given this
worker up. Until the next Welcome the worker goes on with what its processors have, gives them nothing more, and keeps
the results. The Welcome tells: the same scheduler has given the tasks to other workers, so they are dropped here.
Another scheduler has not: Holding, the first message, presents all tasks to it, and results follow as if new.

Queued tasks wait until the scheduler has read Holding, which the first Delivered tells: another worker may have one of
them, with a later attempt, and then a Cancel comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler_protocol.codes import HELD_ENDED, HELD_QUEUED, HELD_RUNNING, SESSION_REPLACED, STATUS_CANCELED
from scaler_protocol.columns import join_u16
from scaler_protocol.holding.results import Row
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import NO_PEER, Holding, Limits
from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened
from scaler_worker.core import stopping
from scaler_worker.core.actions import Remember
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Room, Tables

FEATURE = "present-held"

MESSAGE_TASKS = 16_384
ROW_BYTES = 16 + 16 + 2 + 1 + 32 + 1
"""With a grant, when each task has another client."""


@dataclass(frozen=True, slots=True)
class _Held:
    task_id: TaskId
    attempt: int
    state: int
    client: PeerId
    grant: bytes


def lost(tables: Tables, event: Lost, now: float) -> None:
    """Keep what is held, for a while; or drop it, if no scheduler will want it."""
    _forget_session(tables)
    seconds = tables.settings.present_seconds
    if not tables.is_presenter or seconds <= 0 or event.code == SESSION_REPLACED:
        drop_all(tables, now)
        return
    for processor in tables.processors.values():
        _end_canceled(tables, processor, now)
    for task in tables.tasks.values():
        if task.stop is not None:
            task.stop.reply_count = 0
    tables.present_until = now + seconds


def _forget_session(tables: Tables) -> None:
    tables.is_connected = tables.may_begin = False
    tables.awaits_acknowledgement = tables.is_acknowledged = False
    tables.sampler = None
    tables.room = Room()
    tables.told_lenders = ()
    tables.untimely.clear()
    tables.cancel_replies.clear()


def _end_canceled(tables: Tables, processor: Processor, now: float) -> None:
    """Its client counts a task that is being canceled as ended, so no scheduler is presented it."""
    first = processor.first
    if first is None or not any(task.stop and task.stop.status == STATUS_CANCELED for task in processor.slice):
        return
    if first.stop is not None and first.stop.status == STATUS_CANCELED:
        if processor.state is not State.STOPPING:
            stopping.kill(tables, processor, now)
        rest = tables.take_rest(processor)
        processor.slice.clear()
        processor.kill_at = processor.timeout_at = None
        tables.forget(first)
        tables.return_to_queue([task for task in rest if task.id in tables.tasks])
    for task in [task for task in tables.queue if task.stop is not None]:
        tables.withdraw(task)
        tables.forget(task)


def drop_all(tables: Tables, now: float) -> None:
    """Stops and forgets all tasks: other workers run them, or no client waits for them (WRK-10)."""
    tables.present_until = None
    tables.tasks.clear()
    tables.queue.clear()
    tables.ahead.clear()
    tables.untimely.clear()
    tables.results.clear()
    tables.kept.clear()
    tables.cancel_replies.clear()
    for processor in tables.processors.values():
        if processor.slice and processor.state is not State.STOPPING:
            stopping.kill(tables, processor, now)
        processor.slice.clear()
        processor.timeout_at = None
        if processor.state is not State.STOPPING:
            processor.kill_at = None


def give_up_if_due(tables: Tables, now: float) -> None:
    """No scheduler has come in time."""
    if tables.present_until is not None and now >= tables.present_until:
        drop_all(tables, now)


def opened(tables: Tables, event: Opened, now: float) -> list[Holding]:
    """The first messages of the session, if this scheduler has to be presented something."""
    welcome = event.welcome
    previous = event.hello.last_server_id
    worker_count, tables.worker_count = tables.worker_count, 0
    tables.is_connected = True
    tables.is_presenter = FEATURE in welcome.features
    tables.results.limits = welcome.limits
    tables.may_begin = True
    tables.awaits_delivery = False
    tables.generation = max(tables.generation, welcome.generation)
    if not tables.is_presenter or previous in (NO_PEER, welcome.server_id):
        if tables.present_until is not None:
            drop_all(tables, now)
        return []
    tables.may_begin = False
    tables.present_until = None
    ended = _ends(tables)
    for row in ended:
        tables.results.append(row)
    tables.awaits_delivery = bool(ended or tables.tasks)
    return list(_messages(_held(tables, ended), worker_count, welcome.limits))


def _ends(tables: Tables) -> list[Row]:
    """How tasks have ended. A task that was tried again counts with its last attempt alone."""
    last = {row[0]: row for row in (*tables.kept.take(), *tables.results.take_rows())}
    ended = [row for task_id, row in last.items() if task_id not in tables.tasks]
    return [row for row in ended if row[2] != STATUS_CANCELED and row[6] is not None]


def delivered(tables: Tables, results_count: int, worker_count: int) -> None:
    tables.kept.delivered(results_count)
    tables.awaits_delivery = tables.awaits_delivery and bool(tables.kept or tables.tasks or len(tables.results))
    tables.may_begin = True
    tables.worker_count = worker_count


def note_generation(tables: Tables, generation: int) -> None:
    """The scheduler has taken a higher one since its Welcome."""
    tables.generation = generation
    tables.actions.append(Remember(generation))


def _held(tables: Tables, ended: Iterable[Row]) -> Iterator[_Held]:
    begun = {processor.slice[0].id for processor in tables.processors.values() if processor.slice}
    for task in tables.tasks.values():
        state = HELD_RUNNING if task.id in begun else HELD_QUEUED
        yield _Held(task.id, task.attempt, state, task.header.client, task.header.owner_grant)
    for task_id, attempt, _, _, _, _, header in ended:
        assert header is not None, "else it is not told"
        yield _Held(task_id, attempt, HELD_ENDED, header.client, header.owner_grant)


def _messages(held: Iterable[_Held], worker_count: int, limits: Limits) -> Iterator[Holding]:
    rows = list(held)
    most = max(1, min(MESSAGE_TASKS, limits.batch_tasks, limits.envelope_bytes // (2 * ROW_BYTES)))
    for start in range(0, len(rows) or 1, most):
        part = rows[start : start + most]
        attempts, states = [row.attempt for row in part], bytes([row.state for row in part])
        grants = {row.client: row.grant for row in part}
        has_grants = any(grants.values())
        yield Holding(
            ids=b"".join([row.task_id for row in part]),
            attempts=join_u16(attempts) if any(attempt != 1 for attempt in attempts) else b"",
            states=states if any(states) else b"",
            clients=b"".join([row.client for row in part]),
            is_last=start + most >= len(rows),
            grants=b"".join(grants.values()),
            grant_sizes=bytes(map(len, grants.values())) if has_grants else b"",
            worker_count=worker_count,
        )
