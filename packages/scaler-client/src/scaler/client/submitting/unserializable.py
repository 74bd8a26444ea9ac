"""The error for the caller's line when a function or an argument cannot be serialized."""

from __future__ import annotations

from typing import Any

from scaler.client.futures.interrupts import pass_on
from scaler_protocol import values


def error_of(arguments: tuple[Any, ...], keywords: dict[str, Any], error: Exception) -> TypeError:
    """Which of the arguments it was, found by trying each alone. An interrupt is raised as it is."""
    pass_on(error)
    for name, argument in by_name(arguments, keywords):
        cause = failure_of(argument)
        if cause is not None:
            return TypeError(f"{named(name, argument)} cannot be serialized: {reason_of(argument, cause)}")
    return TypeError(f"the arguments cannot be serialized: {error}")


def reason_of(value: Any, error: Exception) -> str:
    """Returns why the default serializer cannot write a value: which variable it is, and what to do."""
    from scaler_protocol import unpicklable  # after a failure only

    pass_on(error)
    return unpicklable.reason_of(value, error, failure_of)


def failure_of(value: Any) -> Exception | None:
    """Returns what raises when the default serializer writes a value. An interrupt is raised as it is."""
    try:
        values.dumps(value)
    except Exception as error:  # noqa: BLE001
        pass_on(error)
        return error
    return None


def by_name(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[tuple[int | str, Any]]:
    return [*enumerate(arguments), *keywords.items()]


def named(name: int | str, argument: Any) -> str:
    where = f"argument {name + 1}" if isinstance(name, int) else f"argument {name!r}"
    return f"{where} (of type {type(argument).__name__})"
