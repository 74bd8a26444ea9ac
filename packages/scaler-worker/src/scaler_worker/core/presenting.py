"""What becomes of tasks and processors when the scheduler is lost, until the next one is presented them. (WRK-34)"""

from __future__ import annotations

from scaler_protocol.codes import STATUS_CANCELED
from scaler_protocol.holding.tasks import Task
from scaler_protocol.messages import Holding
from scaler_protocol.session import Lost, Opened
from scaler_worker.core import stopping
from scaler_worker.core.actions import Remember
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Room, Tables


def lost(tables: Tables, event: Lost, now: float) -> None:
    """Keep what is held, for a while; or drop it, if no scheduler will want it."""
    _forget_session(tables)
    if not tables.presenting.lost(event, now):
        drop_all(tables, now)
        return
    for processor in tables.processors.values():
        _end_canceled(tables, processor, now)
        # What it has not begun must not begin before the next scheduler has read of it. (WRK-38)
        tables.reclaim(processor)
    for task in tables.tasks.values():
        if task.stop is not None:
            task.stop.reply_count = 0


def _forget_session(tables: Tables) -> None:
    tables.is_connected = tables.awaits_acknowledgement = tables.is_acknowledged = False
    tables.sampler = None
    tables.room = Room()
    tables.told_lenders = ()
    tables.untimely.clear()
    tables.cancel_replies.clear()


def _is_canceled(task: Task) -> bool:
    return task.stop is not None and task.stop.status == STATUS_CANCELED


def _end_canceled(tables: Tables, processor: Processor, now: float) -> None:
    """Its client counts a task that is being canceled as ended, so no scheduler is presented it."""
    first = processor.first
    if first is None or not any(map(_is_canceled, processor.slice)):
        return
    if _is_canceled(first):
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
    tables.presenting.drop()
    tables.tasks.clear()
    tables.queue.clear()
    tables.ahead.clear()
    tables.untimely.clear()
    tables.results.clear()
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
    if tables.presenting.until is not None and now >= tables.presenting.until:
        drop_all(tables, now)


def opened(tables: Tables, event: Opened, now: float) -> list[Holding]:
    """The first messages of the session, if this scheduler has to be presented something."""
    tables.is_connected = True
    tables.results.limits = event.welcome.limits
    # A processor that has not given back what is behind its first task may have begun it.
    begun = {task.id for processor in tables.processors.values() for task in processor.slice}
    # Of the tasks that are being canceled, those are still here that a processor has not given back yet.
    held = {task_id: task for task_id, task in tables.tasks.items() if not _is_canceled(task)}
    messages = tables.presenting.opened(event, held, begun, tables.results)
    if not messages and tables.presenting.until is not None:
        drop_all(tables, now)
    return messages


def note_generation(tables: Tables, generation: int) -> None:
    """The scheduler has taken a higher one since its Welcome."""
    tables.presenting.generation = generation
    tables.actions.append(Remember(generation))
