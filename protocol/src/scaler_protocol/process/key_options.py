"""The options of keys, which every command has that listens or connects."""

from __future__ import annotations

import argparse
import logging

from scaler_protocol.addresses import parse_address
from scaler_protocol.keys.options import KeyOptions
from scaler_protocol.process.arguments import flag
from scaler_protocol.process.failures import UsageError

_LOCAL = "%s: no keys and no encryption (--insecure): every program of this machine, of any user, can %s through %s"
_REMOTE = "%s: no keys and no encryption (--insecure): every program, of any machine that reaches it, can %s through %s"


def add_key_arguments(parser: argparse._ActionsContainer) -> None:
    group = parser.add_argument_group("keys")
    group.add_argument(
        "--key-file", metavar="FILE",
        help="the cluster's key, or for what connects a ticket (default: SCALER_KEY_FILE, SCALER_KEY, the key of a "
        "server of this user on this machine, or cluster.key in the configuration directory)",
    )  # fmt: skip
    group.add_argument(
        "--insecure", **flag(),
        help="neither key nor encryption: any program that reaches a port of such a cluster can run code on its "
        "workers. All programs of the cluster need this option (default: False)",
    )  # fmt: skip


def key_options(parsed: argparse.Namespace) -> KeyOptions:
    if parsed.insecure and parsed.key_file is not None:
        raise UsageError("--key-file and --insecure exclude each other: leave one of them out")
    return KeyOptions(parsed.key_file or None, parsed.insecure)


def warn_of_insecure(server: str, address: str, risk: str) -> None:
    """Logs that this server runs without keys (SEC-2). `risk`: what any program can do that reaches the address."""
    is_local = parse_address(address, is_bind=True).is_loopback
    logging.warning(_LOCAL if is_local else _REMOTE, server, risk, address)
