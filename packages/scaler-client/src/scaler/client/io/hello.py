"""What a client says first. (HSK-4)"""

from __future__ import annotations

from dataclasses import replace

from scaler.client import __version__
from scaler_protocol import codes, task_context
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import Hello, Timers
from scaler_protocol.session import SessionDialer
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.software import this_software


def hello_of(
    peer_id: PeerId, timeout_seconds: float, heartbeat_seconds: float, parent_task: TaskId, weight: float
) -> Hello:
    return Hello(
        version_min=codes.PROTOCOL_VERSION_MIN,
        version_max=codes.PROTOCOL_VERSION_MAX,
        role=codes.ROLE_CLIENT,
        peer_id=peer_id,
        # While this program does not read, results wait at the scheduler instead of ending the session. (SCH-45)
        # Nodes of graphs that have ended are not run again when the scheduler is lost. (SCH-51)
        # It says from which scheduler it comes, so that the next one waits for workers that have its tasks. (CLI-21)
        features=("result-window", "kept-results", "present-held", "code-sets"),
        # A lease has room for three heartbeats: slower ones would make it longer than the program wants to wait.
        timers=Timers(heartbeat_seconds=min(heartbeat_seconds, timeout_seconds / 3), lease_seconds=timeout_seconds),
        software=this_software("scaler-client", __version__),
        parent_task=parent_task,
        share_weight=max(1, round(100 * weight)),  # (SCH-92)
    )


def renewed(hello: Hello, peer_id: PeerId) -> Hello:
    """For the next session of this connection, under another name."""
    return replace(hello, peer_id=peer_id, parent_task=_present_task(hello))


def name_present_task(dialer: SessionDialer) -> None:
    """A connection in a process of a worker outlives the task in which it was opened. A scheduler knows nothing of a
    task that has ended, so the next Hello names the task that runs now. (SCH-55, SCH-74)"""
    present = _present_task(dialer.hello)
    if present != dialer.hello.parent_task:
        dialer.hello = replace(dialer.hello, parent_task=present)


def _present_task(hello: Hello) -> TaskId:
    context = task_context.current()
    return hello.parent_task if context is None or not hello.parent_task else context.task_id


def dialer_of(hello: Hello, address: str) -> SessionDialer:
    return SessionDialer(
        hello=hello,
        server_name=f"scheduler at {address}",
        is_paced=True,
        allowed_messages=FROM_SCHEDULER[codes.ROLE_CLIENT],
    )
