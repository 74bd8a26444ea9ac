"""worker_state on a real cluster: one value for all tasks of a processor, and its end with the worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import scaler
from scaler import worker_state
from tests.support.tasks import wait_for_file


def opened(path: str) -> Iterator[str]:
    with open(path, "a") as file:
        file.write(f"begin {os.getpid()}\n")
    yield f"{os.getpid()}"
    with open(path, "a") as file:
        file.write(f"end {os.getpid()}\n")


def use(path: str, _number: int) -> str:
    return worker_state(opened, path)


def hold(path: str) -> None:
    worker_state(opened, path)
    time.sleep(120)


def test_a_value_is_made_once_for_each_processor_and_ends_with_its_worker(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with scaler.local(workers=2) as client:
        makers = set(client.starmap(use, [(str(log), number) for number in range(200)]))
        assert sorted(log.read_text().split()[1::2]) == sorted(makers)
    lines = log.read_text().splitlines()
    assert sorted(lines) == sorted(f"{word} {maker}" for maker in makers for word in ("begin", "end"))


def test_a_canceled_task_does_not_keep_the_value_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with scaler.local(workers=1) as client:
        client.submit(hold, str(log))
        wait_for_file(str(log))
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["begin", "end"]
