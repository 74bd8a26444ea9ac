"""The options of `scaler_native_worker_adapter`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_protocol.keys.web import ADAPTER_LABEL, web_token
from scaler_protocol.process import ArgumentParser, UsageError, add_secret, flag, given_secret, whole_number
from scaler_protocol.web.guards import LOOPBACK_NAMES, is_loopback
from scaler_worker.config import ClusterConfig, add_worker_options, cluster_config

PROGRAM = "scaler_native_worker_adapter"
SECTION = "native_worker_adapter"


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    cluster: ClusterConfig  #: what each worker is like
    host: str
    port: int
    max_groups: int  #: below zero: any number
    token: str
    hosts: frozenset[str] = frozenset()  #: the names under which it is reached; empty: any


def parse_arguments(arguments: Sequence[str] | None = None) -> AdapterConfig:
    parsed = parser().parse_settings(arguments)
    if not 0 <= parsed.port <= 65535:
        raise UsageError(f"--port {parsed.port} is not a port, which is a number up to 65535")
    cluster = cluster_config(parsed)
    token = given_secret(parsed, "auth_token")
    if not token and not parsed.no_token:
        token = web_token(cluster.keys, cluster.address, ADAPTER_LABEL)
    if not token and not is_loopback(parsed.host) and not parsed.no_token:
        raise UsageError(
            f"{parsed.host} can be reached from other machines, and without a token every program there could start "
            "workers here: set a token in the environment (SCALER_NATIVE_WORKER_ADAPTER_AUTH_TOKEN), listen on "
            "127.0.0.1, or add --no-token"
        )
    # Beyond loopback the names are not known here. There the token decides.
    hosts = frozenset(LOOPBACK_NAMES) if is_loopback(parsed.host) and not token else frozenset()
    return AdapterConfig(cluster, parsed.host, parsed.port, parsed.max_workers, token, hosts)


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section=SECTION,
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="Starts and shuts down workers on this machine when it is asked by HTTP.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2345 --host 127.0.0.1 --port 8080",
    )
    parser.add_argument("address", help="the scheduler of the workers, such as tcp://127.0.0.1:2345")
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="localhost", help="where to listen (default: %(default)s)")
    server.add_argument("--port", "-p", type=whole_number, default=8080, help="(default: %(default)s)")
    add_secret(server, "--auth-token", SECTION, "the secret of callers, instead of one from the cluster's key")
    server.add_argument("--no-token", **flag(), help="ask for no secret: every request can start workers")
    workers = parser.add_argument_group("workers")
    workers.add_argument(
        "--max-workers", "-mw", type=whole_number, default=max((os.cpu_count() or 2) - 1, 1), metavar="N",
        help="no more workers than this; -1 for any number (default: one less than there are processors, %(default)s)",
    )  # fmt: skip
    add_worker_options(parser, workers)
    return parser
