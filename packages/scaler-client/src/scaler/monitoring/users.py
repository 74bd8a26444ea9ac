"""What each user of the cluster has, summed up from one status. Without keys there are no users (MON-25)."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import ClusterStatus


@dataclass(slots=True)
class UserFigures:
    """What one user of a cluster with keys has connected, and has not finished or released."""

    name: str
    client_count: int = 0
    worker_count: int = 0
    #: unfinished tasks of its clients, and what these own in the storage
    task_count: int = 0
    object_count: int = 0
    object_bytes: int = 0


def users_of(status: ClusterStatus) -> list[UserFigures]:
    """The users of a status; the one with the most unfinished tasks comes first. Empty if the cluster has no keys."""
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
