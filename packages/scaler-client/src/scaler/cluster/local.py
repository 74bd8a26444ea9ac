"""A cluster on this machine and its client, in one."""

from __future__ import annotations

import os
from typing import Any, Literal

from scaler.client.client import Client
from scaler.cluster.combo import SchedulerClusterCombo


class LocalClient(Client):
    """A client that ends its cluster when it disconnects. In a task it is a client like any other."""

    #: None in a task, whose cluster is another process's to end
    cluster: SchedulerClusterCombo | None = None

    def __init__(
        self, cluster: SchedulerClusterCombo, on_exit: Literal["cancel", "wait"], *, stream_output: bool
    ) -> None:
        self.cluster = cluster
        super().__init__(cluster, on_exit=on_exit, stream_output=stream_output)

    def disconnect(self) -> None:
        """Cancel what is unfinished, and stop the cluster. A second time it does nothing."""
        super().disconnect()
        if self.cluster is not None:
            self.cluster.shutdown()


def local(
    workers: int | None = None,
    *,
    on_exit: Literal["cancel", "wait"] = "cancel",
    stream_output: bool = False,
    **options: Any,
) -> LocalClient:
    """A client of a new cluster on this machine, as many workers as processors unless told::

        with scaler.local(workers=4) as client:
            client.map(function, values)

    The cluster ends with the block, with `disconnect()` or `shutdown()`, or with the program. `options` are those of
    `SchedulerClusterCombo`, `on_exit` and `stream_output` are those of `Client`. Raises ImportError where the cluster's
    parts are not installed (`pip install "scaler-client[cluster]"`), and what these two raise.
    """
    options.setdefault("protected", False)
    cluster = SchedulerClusterCombo((os.cpu_count() or 1) if workers is None else workers, **options)
    try:
        return LocalClient(cluster, on_exit, stream_output=stream_output)
    except BaseException:
        cluster.shutdown()
        raise
