"""The options of `scaler_worker_manager`: one command for each kind of place that workers come from."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_protocol.addresses import parse_address
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    add_event_loop_argument,
    add_logging_arguments,
    check_event_loop,
    http_url,
    logging_options,
    positive_int,
)
from scaler_worker.config import ClusterConfig, add_worker_options, cluster_config
from scaler_worker.manager.service import ManagerConfig

PROGRAM = "scaler_worker_manager"
SECTION = "worker_manager"


@dataclass(frozen=True, slots=True)
class NativeConfig:
    """`baremetal_native`: workers as processes of this machine."""

    manager: ManagerConfig
    cluster: ClusterConfig  #: what each worker is like
    is_fixed: bool  #: all workers at once and for good, whatever the scheduler wants


def parse_native(arguments: Sequence[str]) -> NativeConfig:
    parsed = native_parser().parse_settings(arguments)
    cluster = cluster_config(parsed, worker_names=tuple(map(str, range(parsed.max_task_concurrency))))
    return NativeConfig(manager_config(parsed, cluster), cluster, parsed.mode == "fixed")


def native_parser() -> ArgumentParser:
    parser = ArgumentParser(
        f"{PROGRAM} baremetal_native",
        section=SECTION,
        kind="baremetal_native",
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="Workers on this machine, as many as the scheduler has use for.",
        epilog="Example: scaler_worker_manager baremetal_native tcp://127.0.0.1:2345 --max-task-concurrency 8",
    )
    parser.add_argument("address", help="the scheduler, such as tcp://127.0.0.1:2345")
    workers = parser.add_argument_group("workers")
    add_manager_options(workers)
    workers.add_argument(
        "--mode", choices=("dynamic", "fixed"), default="dynamic",
        help="dynamic: as many workers as are of use; fixed: all of them, all the time (default: dynamic)",
    )  # fmt: skip
    add_worker_options(parser, workers)
    return parser


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """`webhook`: workers that somebody else starts when he is asked."""

    address: str
    name: str
    url: str
    token: str
    event_loop: str
    logging: LoggingOptions


def parse_webhook(arguments: Sequence[str]) -> WebhookConfig:
    parsed = webhook_parser().parse_settings(arguments)
    check_event_loop(parsed.event_loop)
    return WebhookConfig(
        str(parse_address(parsed.address)),
        parsed.worker_manager_id or f"webhook {parsed.url}",
        parsed.url,
        parsed.auth_token or "",
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
    parser.add_argument("address", help="the scheduler, such as tcp://127.0.0.1:2345")
    parser.add_argument("--url", type=http_url, required=True, help="where the adapter listens")
    parser.add_argument(
        "--auth-token", metavar="TOKEN",
        help="what the adapter wants to hear; better put into the environment: SCALER_WORKER_MANAGER_AUTH_TOKEN",
    )  # fmt: skip
    _add_name(parser)
    add_event_loop_argument(parser)
    add_logging_arguments(parser)
    return parser


def add_manager_options(group: argparse._ArgumentGroup) -> None:
    _add_name(group)
    group.add_argument(
        "--max-task-concurrency", "-mtc", "--max-workers", "-mw", type=positive_int, default=os.cpu_count() or 1,
        metavar="N", help="no more workers than this (default: the number of processors, %(default)s)",
    )  # fmt: skip


def _add_name(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--worker-manager-id", "-wmi", metavar="NAME",
        help="what this manager is called; no other manager of the scheduler may have the same name, and one that is "
        "started again has to have the same (default: the name of the host, or the URL)",
    )  # fmt: skip


def manager_config(parsed: argparse.Namespace, cluster: ClusterConfig) -> ManagerConfig:
    """From the options that `add_manager_options` has added."""
    return ManagerConfig(
        cluster.address,
        parsed.worker_manager_id or socket.gethostname(),
        parsed.max_task_concurrency,
        capabilities=cluster.capabilities,
        stop_seconds=cluster.grace_seconds + 10.0,
    )
