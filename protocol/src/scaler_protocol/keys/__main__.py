# PYTHON_ARGCOMPLETE_OK
"""`scaler_key make | show | derive | list | revoke | rotate | check`: the key of a cluster, and its tickets."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from scaler_protocol import __version__
from scaler_protocol.keys import management
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.places import FILE_VARIABLE, configured_key
from scaler_protocol.keys.roles import ROLES
from scaler_protocol.process import ArgumentParser, run_command

PROGRAM = "scaler_key"
SECONDS_A_DAY = 86_400


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        usage=f"{PROGRAM} [-h] [--version] COMMAND [options] [file]",
        description="The key of a cluster, and tickets made with it. A program with the key may do everything in the "
        "cluster; a program with a ticket may do what the ticket says. A scheduler that finds no key makes one for its "
        "user, so that most people never need this command.",
        epilog=f"Where no file is named, it is the one that {FILE_VARIABLE} names, or cluster.key in the configuration "
        f"directory.\n\nExample: {PROGRAM} derive --role worker --user ana --days 90 --output worker.key",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(
        prog=PROGRAM, dest="command", metavar="COMMAND", required=True, parser_class=ArgumentParser
    )
    _add(commands, "make", "make a new key, in a file that is not there yet; - writes it to standard output")
    _add(commands, "show", "say what a key or ticket is for, without its secret")
    _add_derive(commands)
    _add(commands, "list", "list the tickets that were made here, and say which are valid, expired or revoked")
    _add_revoke(commands)
    rotate = _add(commands, "rotate", "put a new key in front, and accept both; --finish takes the old one out")
    rotate.add_argument("--finish", action="store_true", help="take out all keys but the newest")
    check = _add(commands, "check", "say whether a key or ticket can be used, and where one would be found")
    check.add_argument(
        "--address", "-a", metavar="ADDRESS", help="which key a program of this user would show to the server there"
    )
    return parser


def _add(commands: argparse._SubParsersAction[ArgumentParser], name: str, text: str) -> ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("file", nargs="?", help=f"the key file (default: {FILE_VARIABLE}, or cluster.key)")
    return parser


def _add_derive(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    parser = _add(commands, "derive", "make a ticket, for programs that shall not have the key")
    parser.add_argument(
        "--role", "-r", action="append", required=True, choices=tuple(ROLES),
        help="what its holder may connect as; may be given several times",
    )  # fmt: skip
    parser.add_argument("--user", "-u", metavar="NAME", help="whose ticket it is (default: the name of this account)")
    parser.add_argument(
        "--days",
        "-d",
        type=_days,
        default=0.0,
        metavar="N",
        help="how long it is good (default: until a rotation ends)",
    )
    parser.add_argument(
        "--operator",
        action="store_true",
        help="its holder may also stop or control the cluster",
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write it to a new file (default: standard output)")


def _add_revoke(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    text = "revoke tickets: servers refuse them from their next heartbeats on, and end their sessions"
    parser = commands.add_parser("revoke", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("ids", nargs="+", metavar="ID", help="a ticket, as list and show name it")
    parser.add_argument(
        "--key-file", "-k", metavar="FILE", help=f"the key file (default: {FILE_VARIABLE}, or cluster.key)"
    )


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days <= 36_500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days between 0 and 36500")
    return days


def _run(options: argparse.Namespace) -> int:
    if options.command == "make":
        return management.make(options.file or configured_key())
    if options.command == "derive":
        return management.derive(
            options.file,
            user=options.user or account_name(),
            roles=frozenset(ROLES[name] for name in options.role),
            is_operator=options.operator,
            expires=time.time() + options.days * SECONDS_A_DAY if options.days else 0.0,
            output=options.output,
        )
    if options.command == "list":
        return management.list_tickets(options.file)
    if options.command == "revoke":
        return management.revoke(options.key_file, options.ids)
    if options.command == "rotate":
        return management.finish(options.file) if options.finish else management.rotate(options.file)
    if options.command == "check":
        return management.check(options.file, options.address)
    return management.show(options.file)


if __name__ == "__main__":
    sys.exit(main())
