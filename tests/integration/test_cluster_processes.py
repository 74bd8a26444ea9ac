"""The parts of a cluster as processes of a program, by the names and arguments that programs have for them."""

from __future__ import annotations

import importlib
import logging
import os

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.cluster.cluster import Cluster
from scaler.cluster.object_storage_server import ObjectStorageServerProcess
from scaler.cluster.process import ClusterStartError
from scaler.cluster.scheduler import SchedulerProcess
from scaler.config.section.scheduler import PolicyConfig
from scaler.config.types.object_storage_server import ObjectStorageConfig
from scaler.config.types.zmq import ZMQConfig
from scaler.monitoring import Subscription
from scaler.scheduler.allocate_policy.allocate_policy import AllocatePolicy
from scaler.utility.logging.scoped_logger import ScopedLogger
from scaler.utility.network_util import get_available_tcp_port
from tests.support.processes import WAIT, Stage, until

NAMES = {
    "scaler": ("Client", "Cluster", "ScalerFuture", "SchedulerClusterCombo", "Serializer", "__version__"),
    "scaler.client.client": ("Client",),
    "scaler.client.future": ("ScalerFuture",),
    "scaler.client.object_reference": ("ObjectReference",),
    "scaler.client.serializer.default": ("DefaultSerializer",),
    "scaler.client.serializer.mixins": ("Serializer",),
    "scaler.cluster.cluster": ("Cluster",),
    "scaler.cluster.combo": ("SchedulerClusterCombo",),
    "scaler.cluster.object_storage_server": ("ObjectStorageServerProcess",),
    "scaler.cluster.scheduler": ("SchedulerProcess",),
    "scaler.config.section.scheduler": ("PolicyConfig",),
    "scaler.config.types.object_storage_server": ("ObjectStorageConfig",),
    "scaler.config.types.zmq": ("ZMQConfig", "ZMQType"),
    "scaler.scheduler.allocate_policy.allocate_policy": ("AllocatePolicy",),
    "scaler.utility.exceptions": ("NoWorkerError", "ProcessorDiedError", "WorkerDiedError", "TaskNotFoundError"),
    "scaler.utility.logging.scoped_logger": ("ScopedLogger",),
    "scaler.utility.logging.utility": ("setup_logger",),
    "scaler.utility.network_util": ("get_available_tcp_port",),
    "scaler.utility.object_storage_config": ("ObjectStorageConfig",),
    "scaler.utility.zmq_config": ("ZMQConfig",),
    "scaler.worker.agent.processor.processor": ("Processor",),
    "scaler.worker.preload": ("PreloadSpecError",),
}


@pytest.mark.parametrize("module", NAMES)
def test_names_that_programs_import(module: str) -> None:
    found = importlib.import_module(module)
    assert not [name for name in NAMES[module] if not hasattr(found, name)]


def _worker_count(watcher: Subscription) -> int:
    watcher.poll(0.1)
    status = watcher.state.status
    return len(status.workers) if status is not None else 0


def test_a_cluster_of_separate_processes(stage: Stage) -> None:
    port = stage.ports()
    scheduler_address = ZMQConfig.from_string(f"tcp://127.0.0.1:{port}")
    storage_address = ObjectStorageConfig("127.0.0.1", port + 1)
    storage = ObjectStorageServerProcess(storage_address, logging_level="WARNING")
    scheduler = SchedulerProcess(
        address=scheduler_address,
        storage_address=storage_address,
        adapter_webhook_url=None,
        scaler_policy=PolicyConfig(policy_content="allocate=capability"),
        protected=False,
        logging_level="WARNING",
    )
    workers = Cluster(
        address=scheduler_address,
        worker_names=["left", "right"],
        per_worker_capabilities={"gpu": 2, "linux": -1},
        logging_level="WARNING",
    )
    parts = (storage, scheduler, workers)
    try:
        assert not any(part.is_alive() or part.pid for part in parts)
        storage.start()
        storage.wait_until_ready()
        scheduler.start()
        workers.start()
        assert all(part.is_alive() and part.pid and part.exitcode is None for part in parts)
        with Subscription(scheduler_address.to_address()) as watcher:
            until(lambda: _worker_count(watcher) == 2, "both workers are there to hear of the end")
        with Client(scheduler_address.to_address()) as client:
            assert client.submit_verbose(round, (3.15,), {}, {"gpu": 2}).result(WAIT) == 3
            client.shutdown()
        workers.join(WAIT)
        scheduler.join(WAIT)
        assert (workers.exitcode, scheduler.exitcode, storage.is_alive()) == (0, 0, True)
        storage.terminate()
        storage.join(WAIT)
        assert storage.exitcode == 0
        with pytest.raises(RuntimeError, match="started before"):
            storage.start()
    finally:
        for part in parts:
            part.kill()


def test_a_part_that_cannot_start_says_why(stage: Stage) -> None:
    storage = ObjectStorageServerProcess("tcp://127.0.0.1:1", logging_level="WARNING", logging_config_file="/nowhere")
    storage.start()
    with pytest.raises(ClusterStartError, match="there is no file /nowhere"):
        storage.wait_until_ready(WAIT)


def test_what_programs_reach_for_in_a_combo() -> None:
    combo = SchedulerClusterCombo(n_workers=1, allocate_policy=AllocatePolicy.capability, logging_level="WARNING")
    with combo:
        assert combo._address == combo.get_address()
        port = int(combo._address.rpartition(":")[2])
        assert combo._storage_address == f"tcp://127.0.0.1:{port + 1}"
        assert combo._cluster is not None and combo._cluster.is_alive() and combo._cluster.pid != os.getpid()
        combo._scheduler.kill()
        combo._scheduler.join(WAIT)
        assert not combo._scheduler.is_alive()


def test_the_environment_does_not_change_what_a_program_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_SCHEDULER_PROTECTED", "false")
    monkeypatch.setenv("SCALER_CLUSTER_NUM_OF_WORKERS", "7")
    monkeypatch.setenv("SCALER_CLUSTER_WORKER_NAMES", "a,b,c,d,e,f,g")
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        assert client.submit(abs, -1).result(WAIT) == 1
        with pytest.raises(ValueError, match="protected"):
            client.shutdown()


def test_small_tools(caplog: pytest.LogCaptureFixture) -> None:
    assert 0 < get_available_tcp_port() < 65_536
    with caplog.at_level(logging.INFO), ScopedLogger("the loading"):
        pass
    begun, done = caplog.messages
    assert begun == "beginning the loading" and done.startswith("completed the loading in ")
