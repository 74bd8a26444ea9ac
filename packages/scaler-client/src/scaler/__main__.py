# PYTHON_ARGCOMPLETE_OK
"""`scaler config.toml`: everything that the file names, in one terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scaler.client import __version__
from scaler.cluster.launch import launch
from scaler_protocol.process import ArgumentParser, posix_command, run_command

PROGRAM = "scaler"


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Run everything that a configuration file names, in one terminal: object storage server, "
        "scheduler, workers. Ctrl-C ends all of it, and so does the end of any part.",
        epilog="The sections are [object_storage_server], [scheduler], [cluster] or several [[cluster]], and "
        "[[worker_manager]]; the keys are the options of scaler_object_storage_server, scaler_scheduler, "
        "scaler_cluster and scaler_worker_manager, whose first word is the key type. What the scheduler and the "
        "workers are not told they take from the other sections.\n\nExample: scaler config.toml",
    )
    parser.add_argument("file", nargs="?", help="the TOML file")
    parser.add_argument("--config", "-c", metavar="FILE", dest="config", help="the same")
    parser.add_argument("--version", action="version", version=f"scaler {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    posix_command(PROGRAM)
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    path = options.file or options.config
    if path is None:
        parser().error("name a configuration file, such as config.toml")
    return launch(path)


if __name__ == "__main__":
    sys.exit(main())
