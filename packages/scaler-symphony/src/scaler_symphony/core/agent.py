"""The adapter's decisions: events in, actions out.

Theory of operation. Towards the scheduler this is a worker like any other (chapter WRK). A task waits in the queue,
then is a *run*: one Symphony task, which ends with its response, in whatever order responses come. One Symphony session
holds all runs. When it is lost its runs are lost with it: their tasks wait again at the front of the queue, and a new
session is opened; but a task that has seen three sessions die, or could not be sent three times, is taken for the
reason and ends. Whatever Symphony says twice, or of a former session, changes nothing.

When the scheduler is lost, runs go on and tasks are kept for the next one (scaler_protocol.holding.presenting).

Nothing is sent to the scheduler while events are handled. `RoundEnded` is the end of one wake-up of the shell: then
tasks are sent, what is due is done, and results leave as one message with the credit (CRD-3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol.codes import CANCEL_TOO_LATE
from scaler_protocol.columns import join_ids, split_ids
from scaler_protocol.holding.tasks import tasks_of
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Cancel, Credit, Delivered, Dispatch, Recall, Returned, Shutdown, TaskLog
from scaler_protocol.session import Lost, Opened, Received
from scaler_symphony.core import connection, events, places, presenting, stopping
from scaler_symphony.core.actions import Action, AwaitAcknowledgement, Finish, Remember
from scaler_symphony.core.tables import Run, Settings, Tables


class SymphonyCore:
    def __init__(self, settings: Settings) -> None:
        self.tables = Tables(settings)
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Opened: self._on_opened,
            Received: self._on_received,
            Lost: lambda event, now: presenting.lost(self.tables, event, now),
            events.Started: lambda event, now: connection.open_when_due(self.tables, now),
            events.SessionOpened: lambda event, now: connection.on_opened(self.tables, event, now),
            events.SessionFailed: lambda event, now: connection.on_failed(self.tables, event, now),
            events.SessionLost: lambda event, now: connection.on_lost(self.tables, event, now),
            events.SendFailed: lambda event, now: connection.on_send_failed(self.tables, event, now),
            events.TaskSent: self._on_sent,
            events.Responded: self._on_responded,
            events.Fetched: lambda event, now: places.keep(self.tables, event.family, event.object_id, event.content),
            events.FetchFailed: lambda event, now: places.refuse(
                self.tables, event.family, event.object_id, event.code, event.text
            ),
            events.DrainRequested: self._on_drain,
            events.Acknowledged: self._on_acknowledged,
            events.RoundEnded: self._on_round_ended,
        }
        self._message_handlers: dict[type, Callable[[Any, float], None]] = {
            Dispatch: self._on_dispatch,
            Recall: self._on_recall,
            Cancel: self._on_cancel,
            Shutdown: self._on_drain,
            Delivered: self._on_delivered,
        }

    def handle(self, event: events.Event, now: float) -> list[Action]:
        self._handlers[type(event)](event, now)
        actions, self.tables.actions = self.tables.actions, []
        return actions

    def next_deadline(self) -> float | None:
        tables = self.tables
        dues = [*stopping.deadlines(tables), *connection.deadlines(tables)]
        dues += [due for due in (tables.drain_until, tables.presenting.until) if due is not None]
        return min(dues, default=None)

    def credit(self, now: float) -> Credit:
        return places.credit(self.tables, now)

    # ------------------------------------------------------------ the scheduler

    def _on_opened(self, event: Opened, now: float) -> None:
        for message in presenting.opened(self.tables, event, now):
            self.tables.send(message)
        self._send_credit(now)

    def _on_delivered(self, message: Delivered, now: float) -> None:
        tables = self.tables
        tables.presenting.delivered(message, is_holding=bool(tables.tasks or len(tables.results)))

    def _on_received(self, event: Received, now: float) -> None:
        handler = self._message_handlers.get(type(event.message))
        if handler is None:
            self.tables.log(f"the scheduler sent a {type(event.message).__name__}, which workers do not take")
            return
        handler(event.message, now)

    def _on_dispatch(self, dispatch: Dispatch, now: float) -> None:
        tables = self.tables
        if not self._is_of_latest_scheduler(dispatch):
            tables.send(Returned(dispatch.ids, is_recall_answer=False))
            return
        tasks = tasks_of(dispatch, now)
        if not tables.tasks.keys().isdisjoint([task.id for task in tasks]):
            text = "the scheduler dispatched a task that this worker holds already"
            tables.actions.append(Finish(text, is_failure=True))
        elif tables.is_draining:
            tables.send(Returned(dispatch.ids, is_recall_answer=False))
        elif not tables.code_guard.refuses(tasks, tables.results):
            tables.tasks.update((task.id, task) for task in tasks)
            tables.queue.push_all(tasks)

    def _is_of_latest_scheduler(self, dispatch: Dispatch) -> bool:
        tables, generation = self.tables, dispatch.header.generation
        if why := tables.presenting.refuses(generation):
            tables.log(why)
        elif generation > tables.presenting.generation:
            tables.presenting.generation = generation
            tables.actions.append(Remember(generation))
        return not why

    def _on_recall(self, recall: Recall, now: float) -> None:
        returned = []
        runs = stopping.runs_by_task(self.tables)
        for task_id in map(TaskId, split_ids(recall.ids)):
            task = self.tables.tasks.get(task_id)
            # One that has been in a session that was lost may have begun there: it cannot be given back. (WRK-9)
            if task is not None and task_id not in self.tables.mishaps and task_id not in runs:
                self.tables.queue.remove(task)
                self.tables.forget(task)
                returned.append(task_id)
        self.tables.send(Returned(join_ids(returned)))

    def _on_cancel(self, cancel: Cancel, now: float) -> None:
        ids = [TaskId(task_id) for task_id in dict.fromkeys(split_ids(cancel.ids))]  # each is answered once (CAN-1)
        stopping.cancel(self.tables, ids, cancel.grace_seconds, now)

    def _on_drain(self, event: events.DrainRequested | Shutdown, now: float) -> None:
        """Hand back what has not begun, finish what has. (WRK-11)"""
        tables = self.tables
        until = now + event.grace_seconds
        tables.presenting.is_shutting_down |= isinstance(event, Shutdown)
        tables.drain_until = until if tables.drain_until is None else min(until, tables.drain_until)
        self._send_credit(now)
        connection.return_queue(tables)

    # ------------------------------------------------------------ Symphony

    def _on_sent(self, event: events.TaskSent, now: float) -> None:
        tables = self.tables
        run = tables.runs.get(event.number)
        if event.session != tables.session.number or run is None:
            return
        run.handle = event.handle
        tables.handles[event.handle] = run.number
        tables.unsendable.clear()
        if event.handle in tables.early:
            self._end(run, tables.early.pop(event.handle), now)
        tables.tidy_early()

    def _on_responded(self, event: events.Responded, now: float) -> None:
        tables = self.tables
        if event.session != tables.session.number:
            return
        number = tables.handles.get(event.handle)
        if number is not None:
            self._end(tables.runs[number], event.outcome, now)
        elif any(not run.handle for run in tables.runs.values()):
            tables.early.setdefault(event.handle, event.outcome)

    def _end(self, run: Run, outcome: events.Reply | str, now: float) -> None:
        tables, task = self.tables, run.task
        tables.end_run(run)
        tables.durations.add_round(1, now - run.begun_at)
        if run.is_given_up:
            return
        if isinstance(outcome, str):
            tables.end_broken(task, outcome)
        else:
            for stream, text in outcome.printed:
                tables.send(TaskLog(task.id, stream, text, tables.settings.worker_name))
            tables.forget(task)
            tables.results.append(
                (task.id, task.attempt, outcome.status, outcome.kind, outcome.value, outcome.profile, task.header)
            )
        tables.cancel_replies.answer(task, CANCEL_TOO_LATE)

    # ------------------------------------------------------------ the end of a round

    def _on_round_ended(self, event: events.RoundEnded, now: float) -> None:
        tables = self.tables
        presenting.give_up_if_due(tables, now)
        stopping.enforce(tables, now)
        connection.open_when_due(tables, now)
        places.begin(tables, now)
        if tables.is_connected:
            self._send_ends(now)
        if tables.drain_until is not None:
            self._leave_if_drained(tables.drain_until, now)

    def _leave_if_drained(self, until: float, now: float) -> None:
        """Results that are lost with our Bye would be made again, for Symphony has none of them any more. (WRK-32)"""
        tables = self.tables
        is_drained = tables.is_drained()
        if now >= until or (is_drained and (tables.is_acknowledged or not tables.is_connected)):
            tables.actions.append(Finish(f"drained, {len(tables.tasks)} tasks given up"))
        elif is_drained and not tables.awaits_acknowledgement:
            tables.awaits_acknowledgement = True
            tables.actions.append(AwaitAcknowledgement())

    def _on_acknowledged(self, event: events.Acknowledged, now: float) -> None:
        self.tables.is_acknowledged = self.tables.awaits_acknowledgement

    def _send_ends(self, now: float) -> None:
        tables = self.tables
        connection.give_back(tables, places.excess(tables))
        for message, rows in tables.results.take_with_rows(0):
            tables.send(message)
            if tables.presenting.is_in_force:
                tables.presenting.kept.add(message, rows)
        if self.credit(now) != tables.sent_credit:
            self._send_credit(now)
        replies = tables.cancel_replies.take()
        if replies is not None:
            tables.send(replies)

    def _send_credit(self, now: float) -> None:
        credit = self.tables.sent_credit = self.credit(now)
        self.tables.send(credit)
