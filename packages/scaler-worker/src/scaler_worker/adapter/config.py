"""The options of `scaler_native_worker_adapter`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaler_protocol.keys import NoKeyFound
from scaler_protocol.keys.web import ADAPTER_LABEL, key_token
from scaler_protocol.process import ArgumentParser, UsageError, add_secret, flag, given_secret, whole_number
from scaler_protocol.web.guards import LOOPBACK_NAMES, is_loopback
from scaler_worker.config import ClusterConfig, add_gpus, add_worker_options, cluster_config, given_gpus
from scaler_worker.manager.shares import gpu_shares

PROGRAM = "scaler_native_worker_adapter"
SECTION = "native_worker_adapter"

_REMEDY = "set a token in the environment (SCALER_NATIVE_WORKER_ADAPTER_AUTH_TOKEN) or with --auth-token-file"


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    cluster: ClusterConfig  #: what each worker is like
    host: str
    port: int
    max_groups: int  #: below zero: any number
    token: str
    hosts: frozenset[str] = frozenset()  #: the names under which it is reached; empty: any
    awaits_key: bool = False  #: there is no token yet: it is made from a key that the scheduler has not made yet
    shares: tuple[str, ...] = ()  #: the GPUs of each worker that can run at once; empty: nothing is said of them

    def with_token(self, key_seconds: float) -> AdapterConfig:
        """With the token of the cluster's key. The key is waited for where the scheduler does not run yet: without a
        token, all users of this machine could start workers until the adapter ends."""
        if not self.awaits_key:
            return self
        cluster = self.cluster
        cluster.keys.find_pass(cluster.address, key_seconds)
        return replace(self, token=_token_of_key(cluster), hosts=frozenset(), awaits_key=False)


def parse_arguments(arguments: Sequence[str] | None = None) -> AdapterConfig:
    parsed = parser().parse_settings(arguments)
    if not 0 <= parsed.port <= 65535:
        raise UsageError(f"--port {parsed.port} is not a port, which is a number up to 65535")
    cluster = cluster_config(parsed)
    token = given_secret(parsed, "auth_token")
    awaits_key = False
    if not token and not parsed.no_token and not cluster.keys.insecure:
        try:
            token = _token_of_key(cluster)
        except NoKeyFound:
            awaits_key = True
    if not token and not is_loopback(parsed.host) and not parsed.no_token:
        raise UsageError(
            f"{parsed.host} can be reached from other machines, and without a token every program there could start "
            f"workers here: {_REMEDY}, listen on 127.0.0.1, or add --no-token"
        )
    # Beyond loopback the names are not known here. There the token decides.
    hosts = frozenset(LOOPBACK_NAMES) if is_loopback(parsed.host) and not token else frozenset()
    shares = gpu_shares(given_gpus(parsed), parsed.max_workers, "--max-workers")
    return AdapterConfig(cluster, parsed.host, parsed.port, parsed.max_workers, token, hosts, awaits_key, shares)


def _token_of_key(cluster: ClusterConfig) -> str:
    """NoKeyFound where no key was found yet."""
    token = key_token(cluster.keys, cluster.address, ADAPTER_LABEL)
    if not token:
        raise UsageError(
            "a token for callers cannot be made from a ticket, and without a token every user of this machine could "
            f"start workers: {_REMEDY}, give the cluster's key with --key-file, or add --no-token"
        )
    return token


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
    add_gpus(workers)
    add_worker_options(parser, workers)
    return parser
