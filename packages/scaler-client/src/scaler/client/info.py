"""What a cluster has and does, in figures for programs."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.client.display import table_of
from scaler.monitoring import Subscription
from scaler.top.formats import byte_text
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import ClusterStatus, WorkerEntry


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """As the scheduler published it last."""

    #: of the scheduler
    address: str
    #: of the scheduler's Scaler
    version: str
    #: each runs one task at a time
    worker_count: int
    #: machines that have workers
    host_count: int
    #: names of capabilities, and how many workers offer each
    capabilities: dict[str, int]
    #: by state, such as queued and running
    task_counts: dict[str, int]
    #: bytes that all workers and their processors use
    memory_bytes: int
    #: in the object storage
    object_count: int
    #: bytes in the object storage
    object_bytes: int

    @property
    def _figures(self) -> dict[str, str]:
        """Workers, cores and memory, as texts under their titles."""
        hosts = "1 host" if self.host_count == 1 else f"{self.host_count:,} hosts"
        return {
            "Workers": f"{self.worker_count:,} on {hosts}",
            "Cores": f"up to {self.worker_count:,}, one to a worker",
            "Memory of workers": byte_text(self.memory_bytes),
        }

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        offers = ", ".join(f"{name} ({count:,})" for name, count in self.capabilities.items())
        tasks = ", ".join(f"{count:,} {state}" for state, count in self.task_counts.items())
        rows = {
            "Scheduler": f"{self.address}, version {self.version}",
            **self._figures,
            "Capabilities": offers or "none",
            "Tasks": tasks or "none",
            "Objects": f"{self.object_count:,} of {byte_text(self.object_bytes)}",
        }
        return table_of(rows)


def cluster_info(address: str, keys: KeyOptions, timeout_seconds: float) -> ClusterInfo:
    """Raises MonitorError when the scheduler does not answer, or not us."""
    with Subscription(address, (), keys=keys) as subscription:
        state = subscription.first(timeout_seconds)
        return info_of(address, state.status or ClusterStatus())


def info_of(address: str, status: ClusterStatus) -> ClusterInfo:
    names = [one.name for worker in status.workers for one in worker.capabilities]
    return ClusterInfo(
        address=address,
        version=status.software.version,
        worker_count=len(status.workers),
        host_count=len({worker.software.host for worker in status.workers}),
        capabilities={name: names.count(name) for name in dict.fromkeys(names)},
        task_counts={one.name: one.value for one in status.task_counts},
        memory_bytes=sum(_memory_of(worker) for worker in status.workers),
        object_count=status.storage.object_count,
        object_bytes=status.storage.memory_bytes,
    )


def _memory_of(worker: WorkerEntry) -> int:
    return worker.status.agent_rss_bytes + sum(one.rss_bytes for one in worker.status.processors)
