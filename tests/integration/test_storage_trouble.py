"""Trouble between tasks and the storage, with real processes: which error, and who runs the task instead."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError, ObjectStorageException
from scaler_protocol.process.ports import free_ports
from tests.support.processes import WAIT, Stage

MIB = 1 << 20

IMPATIENT_WORKERS = """
import sys
import scaler_protocol.running.calls as calls
calls.SILENCE_SECONDS = calls.SILENCE_AGAIN_SECONDS = 1.0
from scaler_worker.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
"""As `scaler_cluster`, with less patience than a real one has."""


def address_of(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"


def make(mebibytes: int) -> bytes:
    return bytes(mebibytes * MIB)


def total(*parts: bytes) -> int:
    return sum(map(len, parts))


def test_a_storage_that_is_full_is_an_object_storage_exception(stage: Stage) -> None:
    """Of results, inputs of graphs and the program's own values alike; what fits goes on."""
    port = stage.ports()
    stage.start("scaler_storage", address_of(port + 1), "--memory-limit", "16MiB").wait_for("listen")
    scheduler = stage.start("scaler_scheduler", address_of(port), "-osa", address_of(port + 1))
    stage.start("scaler_worker", address_of(port), "-n", "1")
    with Client(address_of(port)) as client:
        graph = {"a": (make, 10), "b": (make, 10), "sum": (total, "a", "b")}
        calls: list[Callable[[], Any]] = [
            lambda: client.submit(make, 100).result(WAIT),
            lambda: client.map(make, [100], timeout=WAIT),
            lambda: client.get(graph, ["sum"], timeout=WAIT),
            lambda: client.send_object(make(100)),
            lambda: client.submit(len, make(100)),
        ]
        for call in calls:
            with pytest.raises(ObjectStorageException):
                call()
        assert client.submit(make, 2).result(WAIT) == make(2)
        kept = client.send_object(os.urandom(MIB * 31 // 2))
        scheduler.wait_for("limit reached: storage memory: ")
        del kept


def test_tasks_of_a_worker_that_does_not_reach_the_storage_run_elsewhere(stage: Stage) -> None:
    """It reaches the scheduler. Functions, arguments and results need the storage."""
    port = stage.ports()
    stage.start("scaler_scheduler", address_of(port))
    cut_off = address_of(free_ports(1))
    bad = stage.start_program(IMPATIENT_WORKERS, address_of(port), "-wn", "bad", "-n", "1", "-osa", cut_off)
    bad.wait_for("started")
    with Client(address_of(port)) as client:
        assert client.submit(abs, -1).exception(WAIT) is not None, "for now it is the only one"
        stage.start("scaler_worker", address_of(port), "-wn", "good", "-n", "1").wait_for("started")
        futures = [client.submit(make, 1) for _ in range(20)] + [client.submit(len, make(1)) for _ in range(20)]
        for future in futures:
            assert future.result(WAIT) in (make(1), MIB)


def test_a_storage_that_no_worker_reaches_ends_tasks_with_the_reason(stage: Stage) -> None:
    port = stage.ports()
    stage.start("scaler_scheduler", address_of(port))
    cut_off = address_of(free_ports(1))
    stage.start_program(IMPATIENT_WORKERS, address_of(port), "-n", "2", "-osa", cut_off).wait_for("started", 2)
    with Client(address_of(port)) as client:
        futures = [client.submit(make, 1) for _ in range(4)]
        for future in futures:
            with pytest.raises(ObjectStorageException, match="cannot be fetched on this worker"):
                future.result(WAIT)


def test_a_module_that_workers_do_not_have(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = stage.ports()
    stage.start("scaler_scheduler", address_of(port))
    stage.start("scaler_worker", address_of(port), "-n", "1")
    folder = tmp_path / "own"  # workers run in the folder itself
    folder.mkdir()
    (folder / "only_at_the_client.py").write_text("def function(): return 7\nclass Argument: pass")
    monkeypatch.syspath_prepend(folder)
    module: Any = importlib.import_module("only_at_the_client")
    try:
        with Client(address_of(port)) as client:
            calls = (lambda: client.submit(module.function), lambda: client.submit(repr, module.Argument()))
            for call in calls:
                with pytest.raises(DeserializeObjectError, match="Send only_at_the_client if it is your own"):
                    call().result(WAIT)
            cloudpickle.register_pickle_by_value(module)
            assert client.submit(module.function).result(WAIT) == 7
            cloudpickle.unregister_pickle_by_value(module)
    finally:
        del sys.modules[module.__name__]
