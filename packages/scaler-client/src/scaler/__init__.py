"""Scaler: very many small tasks on very many machines."""

from typing import TYPE_CHECKING, Any

from scaler.client import __version__
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.futures.progress import progress
from scaler.client.object_reference import ObjectReference
from scaler.client.serializer.mixins import Serializer
from scaler.cluster.cluster import Cluster
from scaler.cluster.combo import SchedulerClusterCombo
from scaler.cluster.local import local
from scaler.utility.extension import load_ipython_extension
from scaler.utility.worker_state import worker_state

if TYPE_CHECKING:
    from scaler.client.submitting.streams import ScalerStream
    from scaler.utility.trace_context import trace_context

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


def __getattr__(name: str) -> Any:
    if name == "ScalerStream":
        from scaler.client.submitting.streams import ScalerStream  # few programs stream

        return ScalerStream
    if name == "trace_context":
        from scaler.utility.trace_context import trace_context  # as few are traced

        return trace_context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
