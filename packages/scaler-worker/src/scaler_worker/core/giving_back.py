"""Tasks that have not begun go back: from a processor to the queue, and from the worker to the scheduler."""

from __future__ import annotations

from scaler_protocol.columns import join_ids
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Returned
from scaler_worker.core import stopping
from scaler_worker.core.actions import Send
from scaler_worker.core.processors import Processor
from scaler_worker.core.tables import Tables


def take_rest(tables: Tables, processor: Processor) -> None:
    """Moves everything behind the first task of the slice to the queue."""
    to_queue(tables, tables.take_rest(processor))


def to_queue(tables: Tables, tasks: list[Task]) -> None:
    """Moves tasks that no processor has begun to the queue. Ends those that are to be stopped."""
    tables.return_to_queue(tasks)
    for task in tasks:
        if task.stop is not None and task.id in tables.tasks:
            tables.withdraw(task)
            stopping.end_stopped(tables, task)
    if tables.is_draining:
        return_queue(tables)


def return_queue(tables: Tables) -> None:
    """Gives everything that no processor has begun back to the scheduler."""
    for task in tables.queue.clear():
        tables.forget(task)
        tables.untimely.append(task.id)
    tables.give_back_waiting()
    send_untimely(tables)


def send_untimely(tables: Tables) -> None:
    if tables.untimely:
        tables.actions.append(Send(Returned(join_ids(take_untimely(tables)), is_recall_answer=False)))


def take_untimely(tables: Tables) -> list[TaskId]:
    untimely, tables.untimely = tables.untimely, []
    return untimely
