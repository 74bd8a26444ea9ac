"""scaler_top and scaler_explain at a real cluster, as commands and in a real terminal."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from tests.simulation.restored import Restored, read
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage

OPTIONS = ("--status-report-interval-seconds", "0.2")


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 2, scheduler=OPTIONS)
    yield cluster
    cluster.stop()


def output_of(stage: Stage, *arguments: str) -> str:
    command = stage.start(*arguments)
    assert command.wait() == 0, command.text
    return "\n".join(command.lines)


def test_reports_by_every_address(cluster: RealCluster) -> None:
    old = f"ipc:///tmp/0.0.0.0_{cluster.port}_monitor"  # where the predecessor's schedulers published
    with Client(cluster.address) as client:
        assert client.map(abs, range(-10, 0)) == list(range(10, 0, -1))
    for address in (cluster.address, cluster.monitor_address, old):
        told = json.loads(output_of(cluster.stage, "scaler.top", address, "--json"))
        assert len(told["workers"]) == 2 and told["tasks"]["success"] >= 10
    text = output_of(cluster.stage, "scaler.top", cluster.address, "--once")
    assert "Total 2 worker(s)" in text and "task_manager" in text and "success" in text


def test_why_a_task_waits(cluster: RealCluster) -> None:
    with Client(cluster.address) as client:
        future = client.submit_verbose(abs, (-1,), {}, capabilities={"gpu": 1})
        told = client.explain(future)
        assert "none of 2 workers offers gpu=1" in told
        from_outside = output_of(cluster.stage, "scaler.explain", cluster.address, future.task_id.hex())
        assert f": {told}; it was submitted " in from_outside, "the same sentence, behind the name of the function"
        future.cancel()
    gone = output_of(cluster.stage, "scaler.explain", cluster.address, future.task_id.hex())
    assert "the task has ended" in gone


def test_a_dump_can_be_loaded_by_the_simulator(cluster: RealCluster, tmp_path: Path) -> None:
    secret = "a-value-that-is-nobodys-business"
    with Client(cluster.address) as client:
        futures = [client.submit_verbose(len, (secret,), {}, capabilities={"gpu": 1}) for _ in range(3)]
        client.submit(len, secret).result(WAIT)
        path = tmp_path / "scheduler.dump"
        for place in (str(path), "-"):
            told = output_of(cluster.stage, "scaler.dump", cluster.address, place)
        assert told.startswith('{"kind":"dump"') and '"what":"Results"' in told
        for future in futures:
            future.cancel()
    text = path.read_text()
    assert secret not in text and secret.encode().hex() not in text
    restored = Restored(read(text))
    assert restored.unfinished_count == 3
    assert "none of 2 workers offers gpu=1" in restored.run()


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of a test's own is a POSIX thing")
def test_in_a_terminal(cluster: RealCluster) -> None:
    ours, theirs = os.openpty()
    environment = {**cluster.stage.environment(), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "scaler.top", cluster.address]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        _read_until(ours, rb"Total 2 worker")
        os.write(ours, b"n")
        _read_until(ours, rb"\[worker\]")
        os.write(ours, b"q")
        _read_until(ours, rb"\x1b\[\?1049l")  # the terminal is as it was
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.wait(WAIT)
        os.close(ours)


def _read_until(terminal: int, pattern: bytes) -> None:
    seen = b""
    end_at = time.monotonic() + WAIT
    while not re.search(pattern, seen):
        left = end_at - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], f"waited in vain for {pattern!r} in {seen!r}"
        seen += os.read(terminal, 65536)
        if b"\x1b[6n" in seen:  # it asks where the cursor is
            os.write(terminal, b"\x1b[1;1R")
            seen = seen.replace(b"\x1b[6n", b"")
