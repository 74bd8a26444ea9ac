"""How an exception travels with what pickle forgets of it: its cause and context, and its notes (VAL-7).

`pickle.dumps(portable(error))` reads back as the exception itself, so the reader needs nothing but this module.
"""

from __future__ import annotations

from typing import Any

CHAIN_LENGTH = 16
"""How far causes are followed: a chain may be endless, or a circle."""


class portable:  # noqa: N801 - reads as the verb it is
    """Pickles as the exception given, chain included."""

    def __init__(self, error: BaseException, depth: int = 0) -> None:
        self._error = error
        self._depth = depth

    def __reduce__(self) -> tuple[Any, ...]:
        error = self._error
        notes = tuple(getattr(error, "__notes__", ()))
        cause = self._link(error.__cause__)
        # One of the two, as in a traceback: following both would double the work at every link.
        context = self._link(error.__context__) if cause is None and not error.__suppress_context__ else None
        if not notes and cause is None and context is None:
            return _itself, (error,)
        return _rebuild, (error, cause, context, error.__suppress_context__, notes)

    def _link(self, error: BaseException | None) -> portable | None:
        return None if error is None or self._depth >= CHAIN_LENGTH else portable(error, self._depth + 1)


def _itself(error: BaseException) -> BaseException:
    return error


def _rebuild(
    error: BaseException,
    cause: BaseException | None,
    context: BaseException | None,
    suppress_context: bool,
    notes: tuple[str, ...],
) -> BaseException:
    error.__cause__ = cause
    error.__context__ = context
    error.__suppress_context__ = suppress_context
    if notes:
        error.__notes__ = list(notes)  # type: ignore[attr-defined]
    return error
