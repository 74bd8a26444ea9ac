"""A well-formed message of every kind, from the golden vectors."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from scaler_conformance.resources import vectors_folder
from scaler_conformance.wire import Message, decode

#: What each role may send to each server (HSK-13). The rest it may not.
MAY_SEND = {
    ("scheduler", "client"): ("submit", "cancel", "explain", "shutdown"),
    ("scheduler", "worker"): ("results", "cancelReply", "taskLog", "credit", "returned", "workerStatus"),
    ("scheduler", "monitor"): ("snapshotRequest",),
    ("scheduler", "manager"): ("managerStatus",),
    ("storage", "client"): ("put", "get", "release", "duplicate", "storageStatusRequest"),
    ("storage", "worker"): ("put", "get", "release", "duplicate", "storageStatusRequest"),
    ("storage", "scheduler"): ("put", "get", "release", "duplicate", "storageStatusRequest", "releaseOwner"),
    ("storage", "monitor"): ("storageStatusRequest",),
}
#: What only servers send. No dialer may.
FROM_SERVERS = (
    *("dispatch", "recall", "shutdownReply", "clusterStatus", "explanation", "managerTarget"),
    *("value", "objectReply", "storageStatus"),
)


@cache
def samples() -> dict[str, Message]:
    """The minimal vector of each kind."""
    found = {}
    for folder in sorted(vectors_folder().glob("*/minimal")):
        if folder.parent.name != "TaskError":
            message = decode(frames_of(folder), is_lenient=True)
            found[message.kind] = message
    return found


def frames_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("frame-*.bin"))]


def forbidden_kinds(server: str, role: str) -> list[str]:
    """Kinds of version 1 that this role may not send to this server."""
    known = dict.fromkeys([*FROM_SERVERS, *(kind for kinds in MAY_SEND.values() for kind in kinds)])
    return [kind for kind in known if kind not in MAY_SEND[server, role]]
