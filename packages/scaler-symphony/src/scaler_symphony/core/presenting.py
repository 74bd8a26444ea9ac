"""What becomes of tasks and runs when the scheduler is lost, until the next one is presented them. (WRK-34)"""

from __future__ import annotations

from scaler_protocol.messages import Holding
from scaler_protocol.session import Lost, Opened
from scaler_symphony.core import stopping
from scaler_symphony.core.tables import Tables


def lost(tables: Tables, event: Lost, now: float) -> None:
    """Keep what is held, for a while; or drop it, if no scheduler will want it."""
    tables.is_connected = tables.awaits_acknowledgement = tables.is_acknowledged = False
    tables.cancel_replies.clear()
    if not tables.presenting.lost(event, now):
        drop_all(tables, now)
        return
    for run in stopping.runs_by_task(tables).values():
        if run.task.stop is not None:
            # Its client counts a task that is being canceled as ended, so no scheduler is presented it.
            run.is_given_up = True
            run.stop_at = now
            tables.forget(run.task)


def drop_all(tables: Tables, now: float) -> None:
    """Other workers run the tasks, or no client waits for them: going on would only run them twice. (WRK-10)"""
    tables.presenting.drop()
    for held in (tables.tasks, tables.mishaps, tables.queue, tables.results, tables.cancel_replies):
        held.clear()
    if tables.runs:
        stopping.close_session(tables, now)


def give_up_if_due(tables: Tables, now: float) -> None:
    """No scheduler has come in time."""
    until = tables.presenting.until
    if until is not None and now >= until:
        drop_all(tables, now)


def opened(tables: Tables, event: Opened, now: float) -> list[Holding]:
    """The first messages of the session, if this scheduler has to be presented something."""
    tables.is_connected = True
    tables.results.limits = event.welcome.limits
    # A task that was in a session that was lost may have begun there, though it waits again.
    begun = stopping.runs_by_task(tables).keys() | tables.mishaps.keys()
    messages = tables.presenting.opened(event, tables.tasks, begun, tables.results)
    if not messages and tables.presenting.until is not None:
        drop_all(tables, now)
    return messages
