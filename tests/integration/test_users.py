"""Two users of one cluster, of real processes: what a watcher is shown to be whose (MON-25 to MON-27)."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from scaler import Client
from scaler.explain.__main__ import told
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler.top.report import as_json
from scaler_protocol import codes
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Explain, Explanation
from tests.integration.test_keys import Keyed
from tests.support.processes import Stage
from tests.support.waiting import WAIT

SIZE = 300_000


def report(watcher: Subscription) -> dict[str, Any]:
    watcher.poll(0.1)
    return json.loads(as_json(watcher.state))  # type: ignore[no-any-return]


def figures(told: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    names = ("client_count", "worker_count", "task_count", "object_count")
    return {user["name"]: tuple(user[name] for name in names) for user in told["users"]}


def test_a_watcher_sees_whose_clients_workers_tasks_and_objects_there_are(stage: Stage) -> None:
    keyed = Keyed(stage)
    tickets = {user: keyed.ticket(f"{user}.key", codes.ROLE_CLIENT, user=user) for user in ("bo", "cy")}
    watching = KeyOptions(key_file=keyed.ticket("watch.key", codes.ROLE_MONITOR, user="wim"))
    with contextlib.ExitStack() as opened:
        bo, cy = (opened.enter_context(Client(keyed.address, key_file=file)) for file in tickets.values())
        held = [bo.send_object(bytes(SIZE)) for _ in range(3)]
        sleeping = [cy.submit(time.sleep, 60) for _ in range(4)]
        watcher = opened.enter_context(Subscription(keyed.address, keys=watching))
        watcher.first(WAIT)
        expected = {"ana": (0, 1, 0, 0), "bo": (1, 0, 0, 3), "cy": (1, 0, 4, 1)}  # the function is an object of cy's
        end_at = time.monotonic() + WAIT
        while figures(report(watcher)) != expected and time.monotonic() < end_at:
            pass
        shown = report(watcher)
        assert figures(shown) == expected
        sizes = {user["name"]: user["object_bytes"] for user in shown["users"]}
        assert len(held) * SIZE <= sizes["bo"] < len(held) * SIZE + 10_000
        assert [one["user"] for one in shown["workers"]] == ["ana"]
        explained = answer(watcher, Explain(1, sleeping[-1].task_id), Explanation, WAIT)
        assert " of cy: " in told(explained, keyed.address)
        for future in sleeping:
            future.cancel()
