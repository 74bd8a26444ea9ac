"""A client that does not read: its results wait, its session lives, nothing is run again, and others go on."""

from __future__ import annotations

import signal
from pathlib import Path

from scaler import Client
from scaler.explain.__main__ import told
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Explain, Explanation
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

COUNT, SIZE = 1_400, 60_000
"""More than a window takes, and what the worker holds at that moment."""

PROGRAM = """
import os, signal, sys
from scaler import Client
from tests.support import tasks

address, log, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Client(address) as client:
    futures = [client.submit(tasks.noted_bytes, log, i, size) for i in range(count)]
    last = client.submit(tasks.square, 2)
    client.explain(last)  # the scheduler has all of them
    print(last.task_id.hex(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(sum(future.result(60) == bytes([i % 251]) * size for i, future in enumerate(futures)), last.result(60))
"""


def test_a_client_that_is_stopped_loses_nothing_and_hurts_nobody(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 0)
    log = tmp_path / "log"
    program = stage.start_program(PROGRAM, cluster.address, str(log), str(COUNT), str(SIZE))
    program.wait_for("^[0-9a-f]{32}$")
    task_id = TaskId(bytes.fromhex(program.lines[0]))
    cluster.start_workers(1, "--per-worker-task-queue-size", "50")  # not before: it shall have read no result
    with Subscription(cluster.address) as subscription, Client(cluster.address) as other:
        asked: list[Explanation] = []

        def waits() -> bool:
            asked.append(answer(subscription, Explain(len(asked) + 1, task_id), Explanation, WAIT))
            return asked[-1].unread_bytes > 0

        until(waits, "results wait for the client that is stopped")
        assert asked[-1].state == "queued" and "does not read its results" in told(asked[-1], cluster.address)
        assert other.map(tasks.square, range(50), timeout=WAIT) == [i * i for i in range(50)]
        assert answer(subscription, Explain(0, task_id), Explanation, WAIT).state == "queued", "it reads nothing yet"
    program.send(signal.SIGCONT)
    assert program.wait() == 0, program.text
    assert program.lines[1] == f"{COUNT} 4"
    assert sorted(map(int, log.read_text().split())) == list(range(COUNT)), "each has run once"
    cluster.wait_until_empty()
