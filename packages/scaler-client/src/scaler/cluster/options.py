"""From a program's arguments to command lines. Everything is said, also what is a default: the environment must not
change what a program has asked for.

What a command would refuse is refused here: a ValueError in the line that is wrong is better than the last words of a
process."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scaler_protocol.process import (
    UsageError,
    boolean,
    byte_count,
    check_event_loop,
    non_negative_seconds,
    positive_int,
    positive_seconds,
    seconds,
    whole_number,
)
from scaler_protocol.process.logs import LEVELS

Command = list[str]


def _capabilities(text: str) -> object:
    from scaler_protocol.process.worker_arguments import parse_capabilities  # a client alone needs none of it

    return parse_capabilities(text)


def one_of(*names: str) -> Callable[[str], object]:
    def check(text: str) -> object:
        if text not in names:
            raise argparse.ArgumentTypeError(f"there is no {text!r}; choose one of: {', '.join(names)}")
        return text

    return check


_CHECKS: Mapping[str, Callable[[str], object]] = {
    "allocate_policy": one_of("even", "capability"),
    "client_timeout_seconds": positive_seconds,
    "death_timeout_seconds": positive_seconds,
    "event_loop": check_event_loop,
    "garbage_collect_interval_seconds": positive_seconds,
    "hard_processor_suspend": boolean,
    "heartbeat_interval": positive_seconds,
    "io_threads": positive_int,
    "disk_limit": byte_count,
    "load_balance_seconds": seconds,
    "load_balance_trigger_times": positive_int,
    "logging_level": one_of(*LEVELS),
    "lost_processors_limit": positive_int,
    "max_number_of_tasks_waiting": whole_number,
    "memory_limit": byte_count,
    "memory_per_processor": byte_count,
    "object_retention_seconds": non_negative_seconds,
    "per_worker_capabilities": _capabilities,
    "present_seconds": non_negative_seconds,
    "protected": boolean,
    "task_timeout_seconds": non_negative_seconds,
    "tasks_per_processor": positive_int,
    "trim_memory_threshold_bytes": byte_count,
    "worker_task_queue_size": positive_int,
    "worker_timeout_seconds": positive_seconds,
}
"""As the commands check them."""


def command_line(module: str, address: str, **options: Any) -> Command:
    """`python -m module --option value … address`. None says nothing; underscores become hyphens. Raises ValueError
    for a value that the command would refuse."""
    command = [sys.executable, "-m", module]
    for name, value in options.items():
        if value is not None:
            command += _option(name, value)
    return [*command, "--", address]


def key_arguments(key_file: str | os.PathLike[str] | None, insecure: bool) -> dict[str, Any]:
    """What is not said is found by the command itself."""
    if insecure and key_file is not None:
        raise ValueError("key_file and insecure exclude each other: leave one of them out")
    return {"key_file": None if key_file is None else os.fspath(key_file), "insecure": insecure}


def _option(name: str, value: Any) -> Command:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, Mapping):
        value = ",".join(key if amount == -1 else f"{key}={amount}" for key, amount in value.items())
    elif not isinstance(value, str) and isinstance(value, Iterable):
        values = [str(one) for one in value]
        if not values:
            raise ValueError(f"{name}: name at least one")
        return [option, *values]
    # With the equals sign, so that -1 is a value and not an option.
    return [f"{option}={_checked(name, _text(name, value))}"]


def _text(name: str, value: Any) -> str:
    if name == "logging_level":  # as the constants of `logging` too, and in small letters
        return str(logging.getLevelName(value)) if isinstance(value, int) else str(value).upper()
    return str(value)


def _checked(name: str, text: str) -> str:
    check = _CHECKS.get(name)
    if check is not None:
        try:
            check(text)
        except (argparse.ArgumentTypeError, UsageError) as error:
            raise ValueError(f"{name}: {error}") from None
    return text
