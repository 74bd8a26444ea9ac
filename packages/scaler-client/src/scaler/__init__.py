"""Scaler: very many small tasks on very many machines.

`scaler.local()` is a cluster on this machine, and `scaler.Client(address)` a client of any other.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from scaler.client import __version__
from scaler.utility import exceptions as exceptions
from scaler.utility.earlier import warn_of_earlier

if TYPE_CHECKING:
    from scaler.client.client import Client
    from scaler.client.future import ScalerFuture
    from scaler.client.futures.progress import progress
    from scaler.client.object_reference import ObjectReference
    from scaler.client.serializer.mixins import Serializer
    from scaler.client.submitting.streams import ScalerStream
    from scaler.cluster.cluster import Cluster
    from scaler.cluster.combo import SchedulerClusterCombo
    from scaler.cluster.local import local
    from scaler.utility.extension import load_ipython_extension
    from scaler.utility.trace_context import trace_context
    from scaler.utility.worker_state import worker_state

__all__ = [
    "Client",
    "Cluster",
    "ObjectReference",
    "ScalerFuture",
    "ScalerStream",
    "SchedulerClusterCombo",
    "Serializer",
    "__version__",
    "load_ipython_extension",
    "local",
    "progress",
    "trace_context",
    "worker_state",
]

# Loaded when a name is first used: programs that only watch never load what deserializes. (SEC-3)
_MODULES = {
    "Client": "scaler.client.client",
    "Cluster": "scaler.cluster.cluster",
    "ObjectReference": "scaler.client.object_reference",
    "ScalerFuture": "scaler.client.future",
    "ScalerStream": "scaler.client.submitting.streams",
    "SchedulerClusterCombo": "scaler.cluster.combo",
    "Serializer": "scaler.client.serializer.mixins",
    "load_ipython_extension": "scaler.utility.extension",
    "local": "scaler.cluster.local",
    "progress": "scaler.client.futures.progress",
    "trace_context": "scaler.utility.trace_context",
    "worker_state": "scaler.utility.worker_state",
}

# At import: a program may run with files of either.
warn_of_earlier(os.path.dirname(__file__))


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        from scaler.client.elsewhere import instead_of  # for a program that was written for another library

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead_of(name)}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
