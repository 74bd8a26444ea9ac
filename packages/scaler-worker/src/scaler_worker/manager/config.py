"""The options of `scaler_worker_manager`: one command for each kind of place that workers come from."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import socket
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Capability
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_program_arguments,
    add_secret,
    check_event_loop,
    given_secret,
    http_url,
    logging_options,
    positive_int,
    shown_url,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.worker_arguments import add_scheduler, checked_addresses
from scaler_worker import __version__
from scaler_worker.config import ClusterConfig, add_gpus, add_worker_options, cluster_config, given_gpus
from scaler_worker.core.devices import CAPABILITY as GPU
from scaler_worker.gpus import AUTO
from scaler_worker.manager.native import STOP_MARGIN_SECONDS
from scaler_worker.manager.service import ManagerConfig
from scaler_worker.manager.shares import gpu_shares, with_share
from scaler_worker.manager.slurm import CONTROLLER_SECONDS, SlurmOptions

PROGRAM = "scaler_worker_manager"
SECTION = "worker_manager"


@dataclass(frozen=True, slots=True)
class NativeConfig:
    """`baremetal_native`: workers as processes of this machine."""

    manager: ManagerConfig
    cluster: ClusterConfig  #: what each worker is like
    is_fixed: bool  #: all workers at once and for good, whatever the scheduler wants
    shares: tuple[str, ...] = ()  #: the GPUs of each worker that can run at once; empty: nothing is said of them


def parse_native(arguments: Sequence[str]) -> NativeConfig:
    parsed = native_parser().parse_settings(arguments)
    workers, gpus = parsed.max_task_concurrency, given_gpus(parsed)
    shares = gpu_shares(gpus, workers, "--max-task-concurrency")
    cluster = cluster_config(parsed, worker_names=tuple(map(str, range(workers))), gpus=gpus)
    manager = manager_config(parsed, replace(cluster, capabilities=with_share(cluster.capabilities, shares)))
    return NativeConfig(manager, cluster, parsed.mode == "fixed", shares)


def native_parser() -> ArgumentParser:
    parser = ArgumentParser(
        f"{PROGRAM} baremetal_native",
        section=SECTION,
        kind="baremetal_native",
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="Workers on this machine, as many as the scheduler has use for.",
        epilog="Example: scaler_worker_manager baremetal_native tcp://127.0.0.1:2345 --max-task-concurrency 8",
    )
    add_scheduler(parser)
    workers = parser.add_argument_group("workers")
    add_manager_options(workers)
    workers.add_argument(
        "--mode", choices=("dynamic", "fixed"), default="dynamic",
        help="dynamic: as many workers as are of use; fixed: all of them, all the time (default: dynamic)",
    )  # fmt: skip
    add_gpus(workers)
    add_worker_options(parser, workers)
    return parser


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """`slurm`: workers as jobs."""

    manager: ManagerConfig
    cluster: ClusterConfig  #: what each worker is like
    slurm: SlurmOptions


def parse_slurm(arguments: Sequence[str]) -> SlurmConfig:
    parsed = slurm_parser().parse_settings(arguments)
    cluster = cluster_config(parsed)
    each = parsed.workers_per_job
    if parsed.max_task_concurrency < each:
        raise UsageError(f"a job of {each} workers is more than --max-task-concurrency {parsed.max_task_concurrency}")
    named = {one.name: one.amount for one in cluster.capabilities}
    resources = _resources(parsed.gres or "")
    offered = {parsed.partition: -1} if parsed.partition else {}
    offered |= _share_of_worker(resources, each, named) | named
    manager = manager_config(parsed, replace(cluster, capabilities=_capabilities(offered)))
    if GPU in resources:
        # Slurm tells the job which devices it has. Its workers share them out, and offer what they then have.
        del offered[GPU]
        cluster = replace(cluster, gpus=AUTO)
    cluster = replace(cluster, capabilities=_capabilities(offered))
    further = [f"--gres={parsed.gres}"] if parsed.gres else []
    return SlurmConfig(
        replace(manager, workers_per_unit=each, stop_seconds=manager.stop_seconds + CONTROLLER_SECONDS),
        cluster,
        SlurmOptions(
            parsed.partition or "",
            parsed.log_directory,
            (_drained_before_its_end(cluster), *further, *shlex.split(parsed.sbatch_options)),
            parsed.python,
        ),
    )


def _drained_before_its_end(cluster: ClusterConfig) -> str:
    """When the time of a job runs out, its workers finish what they can, and give the rest back."""
    return f"--signal=B:TERM@{math.ceil(cluster.grace_seconds + STOP_MARGIN_SECONDS)}"


def _capabilities(amounts: dict[str, int]) -> tuple[Capability, ...]:
    return tuple(Capability(*item) for item in sorted(amounts.items()))


def _resources(gres: str) -> dict[str, int]:
    """How many of each kind of generic resource a job gets: `gpu:tesla:2,gpu:other:1` is 3 gpu."""
    found: dict[str, int] = {}
    for item in filter(None, gres.split(",")):
        name, _, amount = item.partition("(")[0].partition(":")
        count = amount.rpartition(":")[2]
        found[name] = found.get(name, 0) + (int(count) if count.isdecimal() else 1)
    return found


def _share_of_worker(resources: dict[str, int], workers: int, named: Container[str]) -> dict[str, int]:
    """Of what a job gets. A resource that is named as a capability has the amount of that. Raises UsageError."""
    if GPU in resources and GPU in named:
        raise UsageError("--gres counts the capability gpu: take it out of --per-worker-capabilities")
    for name, count in resources.items():
        if name not in named and count % workers:
            hint = "" if name == GPU else f", or name its amount in --per-worker-capabilities {name}=N"
            shares = f"{count} {name} cannot be shared equally by {workers} workers"
            raise UsageError(f"{shares}: change --gres or --workers-per-job{hint}")
    return {name: count // workers for name, count in resources.items()}


def slurm_parser() -> ArgumentParser:
    parser = ArgumentParser(
        f"{PROGRAM} slurm",
        section=SECTION,
        kind="slurm",
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="Workers as jobs of Slurm, as many as the scheduler has use for.",
        epilog=f"Example: {PROGRAM} slurm tcp://10.0.0.7:2345 --partition debug --workers-per-job 8 -mtc 800",
    )
    parser.add_argument("address", help="the scheduler as it is reached from the nodes, such as tcp://10.0.0.7:2345")
    workers = parser.add_argument_group("workers")
    add_manager_options(workers)
    workers.add_argument("--workers-per-job", type=positive_int, default=1, metavar="N", help="(default: %(default)s)")
    group = parser.add_argument_group("Slurm")
    group.add_argument(
        "--partition", metavar="NAME",
        help="where the jobs run; a capability of their workers by its name (default: Slurm's own choice)",
    )  # fmt: skip
    group.add_argument(
        "--gres", metavar="LIST",
        help="what each job gets of generic resources, such as gpu:2; its workers share them equally, offer them as "
        "capabilities, and show each task the GPUs that it needs",
    )  # fmt: skip
    group.add_argument(
        "--sbatch-options", default="", metavar="TEXT",
        help='further options of sbatch: "--cpus-per-task=8 --mem=16G --time=8:00:00"',
    )  # fmt: skip
    group.add_argument(
        "--log-directory", default=".", metavar="DIRECTORY",
        help="where the jobs' output goes, as it is called on the nodes (default: the present one)",
    )  # fmt: skip
    group.add_argument(
        "--python", default=sys.executable, metavar="PATH",
        help="the interpreter on the nodes that has scaler-worker (default: this one)",
    )  # fmt: skip
    add_worker_options(parser, workers)
    return parser


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """`webhook`: workers that a worker adapter starts."""

    address: str
    name: str
    url: str
    token: str  #: empty: of the cluster's key
    keys: KeyOptions
    event_loop: str
    logging: LoggingOptions


def parse_webhook(arguments: Sequence[str]) -> WebhookConfig:
    parsed = webhook_parser().parse_settings(arguments)
    check_event_loop(parsed.event_loop)
    address, keys = checked_addresses(parsed.address), key_options(parsed)
    return WebhookConfig(
        address,
        parsed.worker_manager_id or f"webhook {shown_url(parsed.url)}",
        parsed.url,
        given_secret(parsed, "auth_token"),
        keys,
        parsed.event_loop,
        logging_options(parsed),
    )


def webhook_parser() -> ArgumentParser:
    parser = ArgumentParser(
        f"{PROGRAM} webhook",
        section=SECTION,
        kind="webhook",
        key_aliases={"scheduler_address": "address"},
        description="Workers that a worker adapter starts and shuts down, asked by HTTP.",
        epilog=f"Example: {PROGRAM} webhook tcp://127.0.0.1:2345 --url http://127.0.0.1:8080",
    )
    add_scheduler(parser)
    parser.add_argument("--url", type=http_url, required=True, help="where the adapter listens")
    add_secret(parser, "--auth-token", SECTION, "the adapter's secret, instead of one from the cluster's key")
    add_manager_name(parser)
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    return parser


def add_manager_options(group: argparse._ArgumentGroup) -> None:
    add_manager_name(group)
    group.add_argument(
        "--max-task-concurrency", "-mtc", "--max-workers", "-mw", type=positive_int, default=os.cpu_count() or 1,
        metavar="N", help="no more workers than this (default: the number of processors, %(default)s)",
    )  # fmt: skip


def add_manager_name(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--worker-manager-id", "-wmi", metavar="NAME",
        help="what this manager is called; no other manager of the scheduler may have the same name, and one that is "
        "started again has to have the same (default: the name of the host, or the host and port of the URL)",
    )  # fmt: skip


def manager_config(parsed: argparse.Namespace, cluster: ClusterConfig) -> ManagerConfig:
    """From the options that `add_manager_options` has added."""
    return ManagerConfig(
        cluster.address,
        parsed.worker_manager_id or socket.gethostname(),
        parsed.max_task_concurrency,
        capabilities=cluster.capabilities,
        stop_seconds=cluster.grace_seconds + STOP_MARGIN_SECONDS,
        keys=cluster.keys,
    )
