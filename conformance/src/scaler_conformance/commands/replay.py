"""`replay`."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser("replay", help="to be written")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    raise NotImplementedError
