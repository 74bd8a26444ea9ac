"""What operators may do: stop the cluster; and at monitors, if this scheduler lets them, cancel tasks and let a worker
leave (MON-49 to MON-52)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from scaler_protocol.codes import (
    CONTROL_CANCEL_CLIENT,
    CONTROL_CANCEL_TASK,
    CONTROL_DONE,
    CONTROL_DRAIN_WORKER,
    CONTROL_NO_OPERATOR,
    CONTROL_NOT_ALLOWED,
    CONTROL_UNKNOWN,
)
from scaler_protocol.ids import PeerId, TaskId, shown_task
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Cancel, Control, ControlReply, Shutdown, ShutdownReply
from scaler_scheduler.core.actions import Stop
from scaler_scheduler.core.ending import cancellation
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.cluster_events import CONTROL
from scaler_scheduler.core.tables.tables import ANSWER_BYTES, Tables

Peer = TypeVar("Peer", Client, Worker)


def shutdown(tables: Tables, client: Client, message: Shutdown) -> None:
    if tables.policy.is_protected:
        text = "this scheduler is protected: a client may not shut it down; stop it where it was started"
        tables.tell(client.peer_id, ShutdownReply(is_accepted=False, text=text))
        return
    if client.identity is not None and not client.identity.is_operator:  # (HSK-33)
        text = f"the ticket of {client.identity.user} is no operator's: stop the cluster with the key itself"
        tables.tell(client.peer_id, ShutdownReply(is_accepted=False, text=text))
        return
    tables.tell(client.peer_id, ShutdownReply(is_accepted=True))
    for worker_id in tables.workers:
        tables.tell(worker_id, message)
    tables.act_last(Stop(message.grace_seconds))


class Controls:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: monitors that have a session as operators, and who they are for people
        self._operators: dict[PeerId, str] = {}

    def joined(self, monitor_id: PeerId, identity: Identity | None) -> None:
        if self._tables.policy.allows_control and (identity is None or identity.is_operator):
            self._operators[monitor_id] = "an operator" if identity is None else identity.user

    def left(self, monitor_id: PeerId) -> None:
        self._operators.pop(monitor_id, None)
        self._tables.backlog.pressure.forget(monitor_id)

    def do(self, monitor_id: PeerId, request: Control) -> None:
        """The monitor is told what has begun, and what comes of it with all that it watches."""
        tables, subject = self._tables, request.subject
        count: int | None = None
        if monitor_id not in self._operators:
            outcome = CONTROL_NO_OPERATOR if tables.policy.allows_control else CONTROL_NOT_ALLOWED
        else:
            if request.action == CONTROL_CANCEL_TASK:
                count = self._cancel_task(monitor_id, TaskId(subject), request.grace_seconds)
            elif request.action == CONTROL_CANCEL_CLIENT:
                count = self._cancel_client(monitor_id, subject, request.grace_seconds)
            elif request.action == CONTROL_DRAIN_WORKER:
                count = self._drain(monitor_id, subject, request.grace_seconds)
            outcome = CONTROL_UNKNOWN if count is None else CONTROL_DONE
        tables.tell(monitor_id, ControlReply(request.request_id, outcome, count or 0))
        tables.backlog.pressure.answered(monitor_id, ANSWER_BYTES)

    def _cancel_task(self, monitor_id: PeerId, task_id: TaskId, grace_seconds: float) -> int | None:
        tables = self._tables
        if task_id not in tables.where:
            return None
        client = tables.chunk_of(task_id).client
        tables.backlog.start(client, cancellation.cancel_unasked(tables, client, Cancel(task_id, False, grace_seconds)))
        self._note(monitor_id, shown_task(task_id), f"canceled a task of {self._name(client)}")
        return 1

    def _cancel_client(self, monitor_id: PeerId, display_id: bytes, grace_seconds: float) -> int | None:
        tables = self._tables
        client = self._shown(tables.clients.values(), display_id)
        if client is None:
            return None
        count = client.unfinished_count
        tables.backlog.start(client, cancellation.cancel_unasked(tables, client, Cancel(b"", True, grace_seconds)))
        self._note(monitor_id, self._name(client), f"canceled all {count} unfinished tasks of this client")
        return count

    def _drain(self, monitor_id: PeerId, display_id: bytes, grace_seconds: float) -> int | None:
        worker = self._shown(self._tables.workers.values(), display_id)
        if worker is None:
            return None
        self._tables.tell(worker.peer_id, Shutdown(grace_seconds))
        self._note(monitor_id, worker.name, f"asked this worker to leave: it holds {len(worker.held)} tasks")
        return len(worker.held)

    def _shown(self, peers: Iterable[Peer], display_id: bytes) -> Peer | None:
        of = self._tables.display.of
        return next((peer for peer in peers if of(peer.peer_id) == display_id), None)

    def _name(self, client: Client) -> str:
        """As people are shown it."""
        name = self._tables.display.of(client.peer_id).hex()[:8]
        return f"{name} ({client.user})" if client.user else name

    def _note(self, monitor_id: PeerId, subject: str, text: str) -> None:
        self._tables.events.note(CONTROL, subject, f"{self._operators[monitor_id]} {text}")
