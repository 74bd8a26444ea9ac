"""What a destructor does for tasks that no object of the program waits for any more: without a lock. What an interrupt
leaves of that, `Drops` does."""

from __future__ import annotations

import _thread
from collections.abc import Callable

from scaler.client.core.events import CancelRequested
from scaler.client.io.connection import Connection
from scaler_protocol.ids import TaskId


def cancel(connection: Connection, ids: tuple[TaskId, ...]) -> None:
    """As `Connection.cancel`."""
    if connection.deferred and any(task_id in connection.deferred for task_id in ids):
        run_apart(lambda: connection.cancel(ids))
    else:
        connection.driver.inbox.append(CancelRequested(ids))
        connection.driver.watch.wake()


def run_apart(job: Callable[[], object]) -> None:
    """In a thread of its own, because the job takes locks.

    Since Python 3.12 no thread begins any more at the interpreter's exit. Then the job is left out: the client has said
    goodbye, which ends its tasks and releases what is stored for it.
    """
    try:
        _thread.start_new_thread(job, ())
    except RuntimeError:
        pass
