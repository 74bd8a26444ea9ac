"""A cluster on this machine and its client, in one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from scaler.client.client import Client
from scaler.client.serializer.mixins import Serializer
from scaler.cluster.combo import SchedulerClusterCombo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from scaler.client.submitting.code import CodeSource, Requirements
    from scaler.cluster.keywords import ClientOptions, ClusterOptions


_ELSEWHERE = {
    "initializer": "write scaler.worker_state(factory) in the task, which makes a value once in each process",
    "initargs": "write scaler.worker_state(factory, ...) in the task, which makes a value once in each process",
    "max_workers": "the number of workers is local(workers=...)",
    "max_tasks_per_child": "it is local(tasks_per_processor=...)",
    "mp_context": "workers are processes of their own commands",
    "threads_per_worker": "each worker runs one task at a time; their number is local(workers=...)",
    "memory_limit_per_worker": "it is local(memory_per_processor=...)",
    "num_cpus": "the number of workers is local(workers=...)",
}
"""Arguments of other pools."""


class LocalClient(Client):
    """A client that ends its cluster when it disconnects. In a task it is a client like any other."""

    #: the cluster that this client ends; None in a task, because another process ends that cluster
    cluster: SchedulerClusterCombo | None = None

    def __init__(self, cluster: SchedulerClusterCombo, **options: Unpack[ClientOptions]) -> None:
        self.cluster = cluster
        super().__init__(cluster, **options)

    def disconnect(self) -> None:
        """Cancel what is unfinished, and stop the cluster. A second time it does nothing."""
        super().disconnect()

    def _disconnect(self, *, is_hurried: bool = False) -> None:
        try:
            super()._disconnect(is_hurried=is_hurried)
        finally:
            if self.cluster is not None:
                self.cluster.shutdown()


def local(
    workers: int | None = None,
    *,
    on_exit: Literal["cancel", "wait"] = "cancel",
    stream_output: bool = False,
    serializer: Serializer | None = None,
    code: CodeSource | Iterable[CodeSource] | None = None,
    requirements: Requirements | None = None,
    timeout_seconds: float = 60,
    weight: float = 1.0,
    trust_results: bool = True,
    profiling: bool = False,
    **options: Unpack[ClusterOptions],
) -> LocalClient:
    """A client of a new cluster on this machine::

        with scaler.local(workers=4) as client:
            client.map(function, values)

    The cluster ends with the block, with `disconnect()` or `shutdown()`, or with the program.

    Args:
        workers: how many, from 0. None: as many as processors.
        on_exit: as of `Client`.
        stream_output: as of `Client`.
        serializer: as of `Client`.
        code: as of `Client`.
        requirements: as of `Client`.
        timeout_seconds: as of `Client`.
        weight: as of `Client`.
        trust_results: as of `Client`.
        profiling: as of `Client`.
        **options: of `SchedulerClusterCombo`; `protected` is False unless it is given.

    Raises:
        ImportError: the parts of a cluster are not installed: `pip install 'scaler-client[cluster]'`.
        Exception: as `SchedulerClusterCombo` and `Client` do.
    """
    if "n_workers" in options:
        raise TypeError("the number of workers is local(workers=...); n_workers is of SchedulerClusterCombo")
    for name, here in _ELSEWHERE.items():
        if name in options:
            raise TypeError(f"local() has no argument {name!r}: {here}")
    options.setdefault("protected", False)
    cluster = SchedulerClusterCombo((os.cpu_count() or 1) if workers is None else workers, **options)
    try:
        return LocalClient(
            cluster, on_exit=on_exit, stream_output=stream_output, serializer=serializer, code=code,
            requirements=requirements, timeout_seconds=timeout_seconds, weight=weight, trust_results=trust_results,
            profiling=profiling,
        )  # fmt: skip
    except BaseException:
        cluster.shutdown()
        raise
