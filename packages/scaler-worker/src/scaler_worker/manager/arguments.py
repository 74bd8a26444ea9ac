"""The command line of `scaler_cluster` that makes workers of a given configuration."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.messages import Capability
from scaler_worker.config import ClusterConfig


def unit_arguments(cluster: ClusterConfig) -> list[str]:
    """The inverse of `scaler_worker.config.parse_arguments`."""
    arguments = [
        cluster.address,
        f"--worker-names={','.join(cluster.worker_names)}",
        f"--per-worker-capabilities={capabilities_text(cluster.capabilities)}",
        f"--worker-task-queue-size={cluster.queue_size}",
        f"--heartbeat-interval={cluster.heartbeat_seconds!r}",
        f"--death-timeout-seconds={cluster.death_timeout_seconds!r}",
        f"--grace-seconds={cluster.grace_seconds!r}",
        f"--task-timeout-seconds={cluster.task_timeout_seconds!r}",
        f"--present-seconds={cluster.present_seconds!r}",
        f"--object-retention-seconds={cluster.object_retention_seconds!r}",
        f"--garbage-collect-interval-seconds={cluster.collect_seconds!r}",
        f"--trim-memory-threshold-bytes={cluster.trim_threshold_bytes}",
        f"--max-processors={cluster.max_processors}",
        f"--share-processors-between-users={cluster.shares_processors}",
        f"--hard-processor-suspend={cluster.suspends_hard}",
        f"--hide-streamed-output={cluster.hides_streamed_output}",
        f"--io-threads={cluster.io_threads}",
        f"--event-loop={cluster.event_loop}",
        f"--client-code={cluster.code.takes}",
        f"--code-limit={cluster.code.code_bytes}",
        f"--environment-limit={cluster.code.environment_bytes}",
        f"--environment-timeout-seconds={cluster.code.environment_seconds!r}",
    ]
    if cluster.code.directory:
        arguments.append(f"--code-directory={cluster.code.directory}")
    if cluster.memory_bytes:
        arguments.append(f"--memory-per-processor={cluster.memory_bytes}")
    if cluster.tasks_per_processor:
        arguments.append(f"--tasks-per-processor={cluster.tasks_per_processor}")
    if cluster.storage_address:
        arguments.append(f"--object-storage-address={cluster.storage_address}")
    if cluster.preload:
        arguments.append(f"--preload={cluster.preload}")
    if cluster.functions:
        arguments.append(f"--functions={','.join(cluster.functions)}")
    if cluster.gpus:
        arguments.append(f"--gpus={cluster.gpus}")
    if cluster.unit_id:
        arguments.append(f"--unit={cluster.manager_id.hex()}:{cluster.unit_id}")
    return [*arguments, *cluster.logging.arguments()]


def capabilities_text(capabilities: Iterable[Capability]) -> str:
    return ",".join(map(_capability, capabilities))


def _capability(capability: Capability) -> str:
    return capability.name if capability.amount == -1 else f"{capability.name}={capability.amount}"
