"""Sessions with Symphony: opened, lost, and what becomes of the tasks in them."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.columns import join_ids
from scaler_protocol.holding.tasks import Task
from scaler_protocol.messages import Returned
from scaler_symphony.core import stopping
from scaler_symphony.core.actions import CloseSession, Finish, OpenSession
from scaler_symphony.core.events import SendFailed, SessionFailed, SessionLost, SessionOpened
from scaler_symphony.core.sessions import Move, State
from scaler_symphony.core.tables import Tables

MISHAPS = 3
"""A task that was in so many sessions when they were lost, or could not be sent so often, may be the reason."""
SEND_PAUSE_SECONDS = 1.0


def open_when_due(tables: Tables, now: float) -> None:
    session = tables.session
    if session.state is not State.CLOSED or tables.is_draining:
        return
    if session.was_ever_open and now >= session.without_since + tables.settings.give_up_seconds:
        text = f"no Symphony session for {tables.settings.give_up_seconds:g} s: giving up"
        tables.actions.append(Finish(text, is_failure=True))
    elif now >= session.open_at:
        session.move(Move.OPEN, now)
        tables.actions.append(OpenSession(session.number))


def deadlines(tables: Tables) -> Iterator[float]:
    if tables.is_draining:
        return
    if tables.session.state is State.CLOSED:
        yield tables.session.open_at
    if tables.send_not_before and tables.session.is_open and tables.presenting.may_begin:
        yield tables.send_not_before


def on_opened(tables: Tables, event: SessionOpened, now: float) -> None:
    session = tables.session
    if event.session == session.number and session.state is State.OPENING:
        session.move(Move.OPENED, now)
        tables.log(f"uses Symphony session {event.name}", is_warning=False)


def on_failed(tables: Tables, event: SessionFailed, now: float) -> None:
    session = tables.session
    if event.session != session.number or session.state is not State.OPENING:
        return
    if not session.was_ever_open:
        tables.actions.append(Finish(f"cannot open a Symphony session: {event.text}", is_failure=True))
        return
    session.move(Move.FAIL, now)
    pause = session.open_at - now
    tables.log(f"cannot open a Symphony session: {event.text}; trying again in {pause:g} s")
    return_queue(tables)  # this may take long, and others may run them


def on_lost(tables: Tables, event: SessionLost, now: float) -> None:
    """Symphony ends them when it is restarted, or when an operator kills them."""
    session = tables.session
    if event.session != session.number or session.state is State.CLOSED:
        return
    tables.actions.append(CloseSession(session.number))
    if session.state is State.OPENING:
        session.move(Move.FAIL, now)
        return
    session.move(Move.LOSE, now)
    tables.log(f"Symphony session lost with {len(tables.runs)} tasks: {event.text}; opening another one")
    runs = [run for run in tables.runs.values() if not run.is_given_up]
    stopping.forget_runs(tables)
    _run_again(tables, [run.task for run in runs], f"the Symphony session was lost: {event.text}")


def on_send_failed(tables: Tables, event: SendFailed, now: float) -> None:
    """The task's fault, or the session's? Of the session, if nothing else is in it or two tasks have met the same."""
    run = tables.runs.get(event.number)
    if event.session != tables.session.number or run is None:
        return
    tables.log(f"a task could not be sent to Symphony: {event.text}")
    tables.end_run(run)
    tables.unsendable.add(run.task.id)
    if not tables.runs or len(tables.unsendable) > 1:
        tables.unsendable.clear()
        on_lost(tables, SessionLost(event.session, event.text), now)
    tables.send_not_before = now + SEND_PAUSE_SECONDS
    if not run.is_given_up:
        _run_again(tables, [run.task], f"it could not be sent: {event.text}")


def _run_again(tables: Tables, tasks: list[Task], text: str) -> None:
    again = []
    for task in tasks:
        if task.stop is not None:
            stopping.end_canceled(tables, task)
            continue
        tables.mishaps[task.id] = tables.mishaps.get(task.id, 0) + 1
        if tables.mishaps[task.id] >= MISHAPS:
            tables.end_broken(task, f"{text}, {MISHAPS} times")
        else:
            again.append(task)
    tables.queue.put_back(again)


def return_queue(tables: Tables) -> None:
    """Those that may have begun in a session that was lost cannot be given back: they stay. (WRK-20)"""
    give_back(tables, [task for task in tables.queue if task.id not in tables.mishaps])


def give_back(tables: Tables, tasks: list[Task]) -> None:
    for task in tasks:
        tables.queue.remove(task)
        tables.forget(task)
    if tasks and tables.is_connected:
        tables.send(Returned(join_ids(task.id for task in tasks), is_recall_answer=False))
