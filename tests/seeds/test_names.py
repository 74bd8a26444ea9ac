"""Names that programs import, at every place where they have been."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "scaler": "__version__ Client ScalerFuture Serializer Cluster SchedulerClusterCombo",
    "scaler.client.client": "Client",
    "scaler.client.future": "ScalerFuture",
    "scaler.client.object_reference": "ObjectReference",
    "scaler.client.serializer.default": "DefaultSerializer",
    "scaler.client.serializer.mixins": "Serializer",
    "scaler.cluster.combo": "SchedulerClusterCombo",
    "scaler.cluster.cluster": "Cluster",
    "scaler.cluster.scheduler": "SchedulerProcess",
    "scaler.cluster.object_storage_server": "ObjectStorageServerProcess",
    "scaler.scheduler.allocate_policy.allocate_policy": "AllocatePolicy",
    "scaler.utility.exceptions": "ClientCancelledException ClientQuitException ClientShutdownException "
    "DeserializeObjectError DisconnectedError MissingObjects NoWorkerError ObjectStorageException ProcessorDiedError "
    "CapnpDeserializationError TaskExceptionNotSerializableError TaskNotFoundError WorkerDiedError",
    "scaler.utility.logging.utility": "setup_logger",
    "scaler.utility.logging.scoped_logger": "ScopedLogger",
    "scaler.utility.network_util": "get_available_tcp_port",
    "scaler.worker.agent.processor.processor": "Processor",
    "scaler.worker.preload": "PreloadSpecError",
}


@pytest.mark.parametrize("module", NAMES)
def test_the_module_has_its_names(module: str) -> None:
    there = importlib.import_module(module)
    assert not [name for name in NAMES[module].split() if not hasattr(there, name)]
