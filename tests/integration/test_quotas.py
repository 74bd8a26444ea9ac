"""Two users of one cluster, of real processes: one is at its quota, and the other does not notice (LIM-35, LIM-36)."""

from __future__ import annotations

import contextlib
import re

import pytest

from scaler import Client
from scaler.explain.__main__ import told as told_of
from scaler.monitoring import Subscription, users_of
from scaler.monitoring.asking import answer
from scaler.utility.exceptions import QuotaError
from scaler_protocol import codes
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import ClusterStatus, Explain, Explanation
from tests.integration.test_keys import Keyed
from tests.support import tasks
from tests.support.processes import Stage, until
from tests.support.waiting import WAIT


def has_room(client: Client) -> bool:
    with contextlib.suppress(QuotaError):
        return client.map(tasks.square, range(20))[-1] == 361
    return False


def test_a_user_at_its_quota_of_tasks_and_of_bytes_does_not_hinder_another(stage: Stage) -> None:
    keyed = Keyed(stage, scheduler=("--user-tasks", "50", "--user-task-bytes", "200KiB"))
    bo, cy = (keyed.ticket(f"{user}.key", codes.ROLE_CLIENT, user=user) for user in ("bo", "cy"))
    nowhere = {"nowhere": -1}
    with keyed.client(bo) as first, keyed.client(bo) as second, keyed.client(cy) as other:
        waiting = [first.submit_verbose(tasks.square, (one,), {}, capabilities=nowhere) for one in range(40)]
        assert first.submit(tasks.square, 3).result(WAIT) == 9, "these have been accepted"
        with pytest.raises(QuotaError, match=r"user bo has 40 unfinished tasks.*--user-tasks"):
            second.map(tasks.square, range(20))
        assert other.map(tasks.square, range(20)) == [one * one for one in range(20)]
        for future in waiting:
            future.cancel()
        until(lambda: has_room(second), "ended tasks have given room back")
        large = [first.submit_verbose(len, (bytes(60_000),), {}, capabilities=nowhere) for _ in range(3)]
        assert first.submit(tasks.square, 3).result(WAIT) == 9
        refused = second.submit(len, bytes(60_000))
        with pytest.raises(QuotaError, match=r"user bo .*--user-task-bytes"):
            refused.result(WAIT)
        told = second.explain(refused)
        assert re.search(r"user bo has 0\.2 MiB of arguments .* may have 0\.2 MiB \(--user-task-bytes\)", told), told
        assert other.submit(len, bytes(60_000)).result(WAIT) == 60_000
        for future in large:
            future.cancel()


def test_a_user_at_its_quota_in_the_storage_does_not_hinder_another(stage: Stage) -> None:
    keyed = Keyed(stage, storage=("--user-limit", "1MiB"))
    bo, cy = (keyed.ticket(f"{user}.key", codes.ROLE_CLIENT, user=user) for user in ("bo", "cy"))
    with keyed.client(bo) as first, keyed.client(bo) as second, keyed.client(cy) as other:
        held = first.send_object(bytes(600_000))
        with pytest.raises(QuotaError, match=r"the user of this client has .*--user-limit"):
            second.send_object(bytes(600_000))
        with pytest.raises(QuotaError, match=r"the user of this client has .*--user-limit"):
            second.submit(len, bytes(600_000)).result(WAIT)
        with pytest.raises(QuotaError, match=r"return value cannot be stored: the user .*--user-limit"):
            second.submit(bytes, 600_000).result(WAIT)
        assert first.submit(len, held).result(WAIT) == 600_000
        kept = other.send_object(bytes(600_000))
        assert other.submit(len, kept).result(WAIT) == 600_000
        assert len(other.submit(bytes, 300_000).result(WAIT)) == 300_000
        del held
        until(lambda: is_stored(second), "what is released gives room back")


def test_a_watcher_is_told_how_near_each_user_is_to_its_quotas(stage: Stage) -> None:
    """As Prometheus, the page and `scaler_top` show it. (MON-68, MON-70)"""
    keyed = Keyed(stage, scheduler=("--user-tasks", "50"), storage=("--user-limit", "1MiB"))
    bo, cy = (keyed.ticket(f"{user}.key", codes.ROLE_CLIENT, user=user) for user in ("bo", "cy"))
    watching = KeyOptions(key_file=keyed.ticket("watch.key", codes.ROLE_MONITOR, user="wim"))
    with (
        keyed.client(bo) as first, keyed.client(bo) as second, keyed.client(cy) as other,
        Subscription(keyed.address, keys=watching) as watcher,
    ):  # fmt: skip
        held = first.send_object(bytes(600_000))
        tasks_of = [
            [client.submit_verbose(tasks.square, (one,), {}, capabilities={"nowhere": -1}) for one in range(5)]
            for client in (first, second, other)
        ]

        def told() -> dict[str, tuple[int, int, bool]]:
            watcher.poll(0.1)
            users = users_of(watcher.state.status or ClusterStatus())
            return {one.name: (one.task_count, one.task_limit, one.stored_bytes > 600_000) for one in users}

        expected = {"bo": (10, 50, True), "cy": (5, 50, False)}
        until(lambda: {name: told().get(name) for name in expected} == expected, "users are told with their quotas")
        bos = next(one for one in users_of(watcher.state.status or ClusterStatus()) if one.name == "bo")
        assert bos.stored_bytes_limit == 2**20 and bos.nearest() == ("stored values", bos.stored_bytes / 2**20)
        refused = second.submit(bytes, 600_000)
        with pytest.raises(QuotaError):
            refused.result(WAIT)
        explained = told_of(answer(watcher, Explain(1, refused.task_id), Explanation, WAIT), keyed.address)
        for text in (second.explain(refused), explained):
            assert re.search(r"has 0\.6 MiB in the object storage, and .* 1\.0 MiB \(--user-limit\)", text), text
        for future in (future for futures in tasks_of for future in futures):
            future.cancel()
        del held


def is_stored(client: Client) -> bool:
    with contextlib.suppress(QuotaError):
        return bool(client.send_object(bytes(600_000)))
    return False
