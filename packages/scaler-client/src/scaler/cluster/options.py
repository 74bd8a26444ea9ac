"""From a program's arguments to command lines. Everything is said, also what is a default: the environment must not
change what a program has asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

Command = list[str]


def command_line(module: str, address: str, **options: Any) -> Command:
    """`python -m module --option value … address`. None says nothing; underscores become hyphens."""
    command = [sys.executable, "-m", module]
    for name, value in options.items():
        if value is not None:
            command += _option(f"--{name.replace('_', '-')}", value)
    return [*command, "--", address]


def _option(name: str, value: Any) -> Command:
    if isinstance(value, Mapping):
        value = ",".join(key if amount == -1 else f"{key}={amount}" for key, amount in value.items())
    elif not isinstance(value, str) and isinstance(value, Iterable):
        return [name, *map(str, value)]
    # With the equals sign, so that -1 is a value and not an option.
    return [f"{name}={value}"]
