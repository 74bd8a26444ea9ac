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
    task_bytes: int = 0  #: of the arguments of its unfinished tasks, as `--user-task-bytes` counts them
    stored_bytes: int = 0  #: in the storage, as its `--user-limit` counts them; 0 if it has none
    task_limit: int = 0  #: unfinished tasks that each user may have; these three are 0 where no limit is known
    task_bytes_limit: int = 0  #: most of `task_bytes`
    stored_bytes_limit: int = 0  #: most of `stored_bytes`

    def nearest(self) -> tuple[str, float]:
        """Returns the quota of which this user has the largest part, "tasks", "arguments" or "stored values", and the
        part: 1 is all of it. Empty and 0 if no limit is known."""
        quotas = (
            ("tasks", self.task_count, self.task_limit),
            ("arguments", self.task_bytes, self.task_bytes_limit),
            ("stored values", self.stored_bytes, self.stored_bytes_limit),
        )
        parts = [(name, has / limit) for name, has, limit in quotas if limit]
        return max(parts, key=lambda part: part[1], default=("", 0.0))


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
    for entry in status.users:
        user = found.setdefault(entry.user, UserFigures(entry.user))
        user.task_count, user.task_bytes, user.stored_bytes = entry.task_count, entry.task_bytes, entry.object_bytes
        user.task_limit, user.task_bytes_limit = status.user_task_limit, status.user_task_bytes_limit
        user.stored_bytes_limit = status.storage.user_limit_bytes
    return sorted(found.values(), key=lambda user: (-user.task_count, user.name))
