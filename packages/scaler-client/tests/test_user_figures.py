"""What watchers tell of users and their quotas. (MON-68, MON-70)"""

from __future__ import annotations

from dataclasses import replace

from scaler.monitoring import UserFigures, users_of
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import ClientEntry, ClusterStatus, StorageStatus, UserEntry

STATUS = ClusterStatus(
    clients=(ClientEntry(new_peer_id(), task_count=3, user="ana"), ClientEntry(new_peer_id(), task_count=8, user="bo")),
    users=(UserEntry("ana", 4, 300, 50), UserEntry("gone", 1)),
    user_task_limit=10,
    user_task_bytes_limit=400,
    storage=StorageStatus(0, user_limit_bytes=1_000),
)


def test_what_is_told_of_users_is_added_to_what_their_clients_have() -> None:
    """The scheduler tells of some if they are many: of the others no limit is known. Tasks of a client that has gone
    count until they have ended."""
    limits = {"task_limit": 10, "task_bytes_limit": 400, "stored_bytes_limit": 1_000}
    assert users_of(STATUS) == [
        UserFigures("bo", client_count=1, task_count=8),
        UserFigures("ana", client_count=1, task_count=4, task_bytes=300, stored_bytes=50, **limits),
        UserFigures("gone", task_count=1, **limits),
    ]


def test_the_quota_that_is_nearest() -> None:
    bo, ana, gone = users_of(STATUS)
    assert [user.nearest() for user in (bo, ana, gone)] == [("", 0.0), ("arguments", 0.75), ("tasks", 0.1)]
    assert replace(ana, stored_bytes=1_100).nearest() == ("stored values", 1.1)
    assert replace(ana, task_bytes_limit=0).nearest() == ("tasks", 0.4), "of an older scheduler or storage"
