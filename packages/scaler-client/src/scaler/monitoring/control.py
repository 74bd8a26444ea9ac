"""What a person who watches may have a scheduler do, and what came of it in words (MON-49 to MON-51)."""

from __future__ import annotations

from scaler_protocol.codes import (
    CONTROL_CANCEL_CLIENT,
    CONTROL_CANCEL_TASK,
    CONTROL_DONE,
    CONTROL_DRAIN_WORKER,
    CONTROL_NO_OPERATOR,
    CONTROL_NOT_ALLOWED,
)
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ClusterStatus, Control, ControlReply

CANCEL_SECONDS = 1.0
"""A task that is canceled has so long to end, as when its client cancels it."""
DRAIN_SECONDS = 60.0
"""And so long have the tasks of a worker that is to leave."""
MOST_SECONDS = 86_400.0

_REASONS = {
    CONTROL_NOT_ALLOWED: "nothing was done: the scheduler was started without --allow-control",
    CONTROL_NO_OPERATOR: "nothing was done: the ticket in use is not an operator's; use the cluster's key, or a ticket "
    "that was made with scaler_key derive --operator",
}
_GONE = {
    CONTROL_CANCEL_TASK: "nothing was done: the scheduler has no unfinished task of this id",
    CONTROL_CANCEL_CLIENT: "nothing was done: this client has left",
    CONTROL_DRAIN_WORKER: "nothing was done: this worker has left",
}


def outcome_text(request: Control, reply: ControlReply) -> str:
    if reply.outcome != CONTROL_DONE:
        return _REASONS.get(reply.outcome) or _GONE[request.action]
    if request.action == CONTROL_CANCEL_TASK:
        return f"the task is being canceled; if it runs, it has {request.grace_seconds:g} s to end"
    if request.action == CONTROL_CANCEL_CLIENT:
        return f"the client's unfinished tasks are being canceled: {reply.task_count:,}"
    return f"the worker leaves when what it runs has ended, after {request.grace_seconds:g} s at the latest"


def peers_named(status: ClusterStatus | None, action: int, digits: str) -> list[PeerId]:
    """The clients, or workers, whose ids begin with these digits, as they are shown: one, if the digits are right."""
    if status is None or not digits:
        return []
    shown = status.clients if action == CONTROL_CANCEL_CLIENT else status.workers
    return [one.peer_id for one in shown if one.peer_id.hex().startswith(digits.lower())]
