"""The error for the caller's line when an argument cannot be serialized."""

from __future__ import annotations

from typing import Any

from scaler.client.futures.interrupts import pass_on
from scaler_protocol import values


def error_of(arguments: tuple[Any, ...], keywords: dict[str, Any], error: Exception) -> TypeError:
    """Which of the arguments it was, found by trying each alone. An interrupt is raised as it is."""
    pass_on(error)
    for name, argument in by_name(arguments, keywords):
        try:
            values.dumps(argument)
        except Exception as cause:  # noqa: BLE001
            pass_on(cause)
            return TypeError(f"{named(name, argument)} cannot be serialized: {cause}")
    return TypeError(f"the arguments cannot be serialized: {error}")


def by_name(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[tuple[int | str, Any]]:
    return [*enumerate(arguments), *keywords.items()]


def named(name: int | str, argument: Any) -> str:
    where = f"argument {name + 1}" if isinstance(name, int) else f"argument {name!r}"
    return f"{where} (of type {type(argument).__name__})"
