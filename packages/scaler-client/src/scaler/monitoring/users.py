"""What each user of the cluster has, summed up from one status. Without keys there are no users (MON-25)."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import ClusterStatus


@dataclass(slots=True)
class UserFigures:
    """What one user of a cluster with keys has connected, and has not finished or released."""

    name: str  #: as in its ticket
    client_count: int = 0  #: connected now
    worker_count: int = 0  #: connected now
    task_count: int = 0  #: unfinished, of its clients
    object_count: int = 0  #: what its clients own in the storage
    object_bytes: int = 0  #: of these objects


def users_of(status: ClusterStatus) -> list[UserFigures]:
    """The users of a status; the one with the most unfinished tasks comes first. Empty if the cluster has no keys.

    Args:
        status: of a `ClusterState`.
    """
    found: dict[str, UserFigures] = {}
    for client in status.clients:
        if client.user:
            user = found.setdefault(client.user, UserFigures(client.user))
            user.client_count += 1
            user.task_count += client.task_count
            user.object_count += client.object_count
            user.object_bytes += client.object_bytes
    for worker in status.workers:
        if worker.user:
            found.setdefault(worker.user, UserFigures(worker.user)).worker_count += 1
    return sorted(found.values(), key=lambda user: (-user.task_count, user.name))
