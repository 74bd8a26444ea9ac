"""What watchers tell of users and their quotas. (MON-68, MON-70)"""

from __future__ import annotations

import json
from dataclasses import replace

from scaler.monitoring import ClusterState, Condition, Heard, UserFigures, users_of
from scaler.top.board import board_of
from scaler.top.report import as_json
from scaler.ui.model import Model
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import ClientEntry, ClusterStatus, StorageStatus, UserEntry

STATUS = ClusterStatus(
    clients=(ClientEntry(new_peer_id(), task_count=3, user="ana"), ClientEntry(new_peer_id(), task_count=8, user="bo")),
    users=(UserEntry("ana", 4, 300, 50), UserEntry("gone", 1)),
    user_task_limit=10,
    user_task_bytes_limit=400,
    storage=StorageStatus(0, user_limit_bytes=1_000),
)
STATE = ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=STATUS)


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


def test_they_are_shown_on_a_screen_and_in_a_report() -> None:
    board = board_of(STATE)
    (section,) = [one for one in board.panes if one.title.startswith("user_to")]
    assert section.title == "user_to_tasks_objects_mem_quota"
    texts = {name: text.split() for name, text in section.entries}
    assert {name: (text[0], text[-1]) for name, text in texts.items()} == {
        "bo": ("8", "-"), "ana": ("4", "75%"), "gone": ("1", "10%"),
    }  # fmt: skip
    ana = json.loads(as_json(STATE))["users"][1]
    assert (ana["task_bytes"], ana["task_bytes_limit"], ana["stored_bytes"]) == (300, 400, 50)


def test_they_are_told_to_the_page() -> None:
    told = dict(Model("here").take(STATE, [Heard("status", STATUS, 0.0)], 0.0))
    users = told["status"]["status"]["users"]
    assert [(one["name"], one["arguments"], one["quota"], one["part"]) for one in users] == [
        ("bo", 0, "", 0.0), ("ana", 300, "arguments", 0.75), ("gone", 0, "tasks", 0.1),
    ]  # fmt: skip
