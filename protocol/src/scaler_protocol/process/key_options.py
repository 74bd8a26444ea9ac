"""The options of keys, which every command has that listens or connects."""

from __future__ import annotations

import argparse

from scaler_protocol.keys.options import KeyOptions
from scaler_protocol.process.arguments import flag
from scaler_protocol.process.failures import UsageError


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
