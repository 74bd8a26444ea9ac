# PYTHON_ARGCOMPLETE_OK
"""`scaler_ui ADDR`: what a cluster does, as a web page, and its metrics for Prometheus."""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from scaler.client import __version__
from scaler.monitoring import Playback, RecordingError, Subscription
from scaler.monitoring.addresses import watchable
from scaler.monitoring.watcher import Source, Watcher
from scaler.ui import TOPICS
from scaler_protocol.keys import NoKeyFound
from scaler_protocol.keys.web import PAGE_LABEL, web_token
from scaler_protocol.process import (
    ArgumentParser,
    StartupError,
    UsageError,
    add_logging_arguments,
    add_secret,
    flag,
    given_secret,
    logging_options,
    non_negative_seconds,
    run_command,
    run_server,
    secret,
    whole_number,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.private_files import open_private
from scaler_protocol.web.guards import LOOPBACK_NAMES, Guard, is_loopback

PROGRAM = "scaler_ui"
SECTION = "ui"
TOKEN_VARIABLE = "SCALER_UI_TOKEN"
WILDCARDS = ("0.0.0.0", "::")
EVERY_NAME = "*"


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section=SECTION,
        description="Show a cluster as a web page: workers, a stream of tasks, graphs, logs, why tasks wait. The page "
        "only reads, unless --allow-control is given. At /metrics it speaks to Prometheus.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2345 --port 8081",
    )
    parser.add_argument(
        "address", nargs="?", help="of the scheduler, or of its monitor, as the scheduler logs them when it starts"
    )
    parser.add_argument("--replay", metavar="FILE", help="show what scaler_top --record has written, instead")
    parser.add_argument(
        "--html", metavar="FILE", help="make one HTML file of a recording, to look at without any server, and end"
    )
    parser.add_argument("--against", metavar="FILE", help="with --html: another recording, to compare the first with")
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="with --html: the file to write (default: its name with .html)",
    )
    parser.add_argument(
        "--speed", type=non_negative_seconds, default=1.0, help="of the replay; 0: all at once (default: %(default)g)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    parser.add_argument("--port", "-p", type=whole_number, default=8081, help="0: any (default: %(default)s)")
    add_secret(parser, "--token", SECTION, "the secret of browsers and programs, instead of one from the cluster's key")
    parser.add_argument("--show-token", help="print the token from the cluster's key, for programs, and end", **flag())
    parser.add_argument(
        "--allowed-host", nargs="+", default=[],
        help="further names under which the page is asked for, as of a proxy; '*' with a token: every name",
    )  # fmt: skip
    parser.add_argument(
        "--allow-control", **flag(),
        help="the page can have tasks canceled and workers let go, where the scheduler allows it too (default: no)",
    )  # fmt: skip
    parser.add_argument("--no-token", help="ask for no secret: every page request gets an answer", **flag())
    add_logging_arguments(parser)
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    if [options.address, options.replay, options.html].count(None) != 2:
        raise UsageError("name the address of a scheduler, or a recording with --replay or --html")
    if options.allow_control and options.address is None:
        raise UsageError("--allow-control is for a scheduler: a recording has nothing to control")
    if options.html is None and (options.against or options.output):
        raise UsageError("--against and --output belong to --html")
    if not 0 <= options.port <= 65_535:
        raise UsageError(f"--port {options.port} is not a port, which is a number up to 65535")
    if options.show_token:
        return _show_token(options)
    _check_extra()
    if options.html is not None:
        return _report(options)
    made = "" if options.replay else _made_token(options)
    guard = guard_of(options, made)
    link = bool(made) and guard.token == made
    playback = None if options.replay is None else Playback(options.replay, options.speed)
    make = _source(options) if playback is None else lambda: playback
    shown = options.replay or options.address
    return run_server(
        lambda stop: _serve(make, guard, options, shown, stop, link, playback), logging_options(options), "builtin"
    )


def _report(options: argparse.Namespace) -> int:
    from scaler.ui.report import html

    text = html(options.html, options.against or "")
    output = options.output or re.sub(r"(\.rec)?(\.gz)?$", "", options.html) + ".html"
    try:
        with open_private(output) as file:
            file.write(text.encode())
    except OSError as error:
        raise RecordingError(f"{output} cannot be written: {error.strerror or error}") from None
    print(f"{output}: {len(text.encode()) / 2**20:.1f} MiB; a browser shows it without a server")
    return 0


def _check_extra() -> None:
    try:
        import aiohttp  # noqa: F401
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise StartupError(f"the page needs {error.name}: pip install 'scaler-client[ui]'") from None


def _show_token(options: argparse.Namespace) -> int:
    token = web_token(key_options(options), watchable(options.address), PAGE_LABEL) if options.address else ""
    if not token:
        raise UsageError("there is no cluster's key here to make a token from: name it with --key-file")
    print(token)
    return 0


def _made_token(options: argparse.Namespace) -> str:
    """Where the cluster has a key, also other users of this machine must show a token: the one from the key, or, with a
    ticket only or before the key is made, one of this process."""
    keys = key_options(options)
    if keys.insecure:
        return ""
    return web_token(keys, watchable(options.address), PAGE_LABEL) or secrets.token_urlsafe(32)


def guard_of(options: argparse.Namespace, made_token: str = "") -> Guard:
    """`made_token` counts where the operator has given none."""
    token = "" if options.no_token else given_secret(options, "token") or secret(TOKEN_VARIABLE) or made_token
    if options.allow_control and not token:
        # No Host check replaces the token: on loopback, other users of the machine could give orders.
        raise UsageError(
            "--allow-control needs a token, because each visitor of the page can have tasks canceled: leave out "
            f"--no-token and, without a cluster's key, set {TOKEN_VARIABLE} (or --token-file)"
        )
    names = {name.lower() for name in options.allowed_host}
    if EVERY_NAME in names:
        if not token:
            raise UsageError(f"--allowed-host '{EVERY_NAME}' needs a token: set {TOKEN_VARIABLE} (or --token)")
        return Guard(frozenset(), token)
    if is_loopback(options.host):
        return Guard(frozenset({*LOOPBACK_NAMES, options.host, *names}), token)
    if not token and not options.no_token:
        raise UsageError(
            f"--host {options.host} lets others see this cluster: set {TOKEN_VARIABLE} (or --token), or say --no-token"
        )
    if options.host in WILDCARDS and not names:
        return Guard(frozenset(), token)  # the names of this host are not known here; the token decides
    return Guard(frozenset({options.host.lower(), *names}), token)


def _source(options: argparse.Namespace) -> Callable[[], Source]:
    """What cannot be is told now, and not by a thread later."""
    keys, address = key_options(options), watchable(options.address)
    with suppress(NoKeyFound):  # the scheduler may not be up yet
        keys.find_pass(address)
    return lambda: Subscription(options.address, TOPICS, keys=keys)


async def _serve(
    make: Callable[[], Source],
    guard: Guard,
    options: argparse.Namespace,
    shown: str,
    stop: asyncio.Event,
    link: bool,
    playback: Playback | None,
) -> None:
    from scaler.ui.feed import Feed
    from scaler.ui.model import Model
    from scaler.ui.server import serve

    feed = Feed(Model(shown))
    watcher = Watcher(make, feed.heard)
    if playback is None:
        feed.watcher = watcher
        feed.may_control = options.allow_control
    else:
        feed.playback, playback.on_jump = playback, feed.jumped
        threading.Thread(target=playback.measure, name="scaler-recording", daemon=True).start()
    watcher.start()
    try:
        await serve(feed, guard, options.host, options.port, shown, stop, link)
    finally:
        watcher.stop()


if __name__ == "__main__":
    sys.exit(main())
