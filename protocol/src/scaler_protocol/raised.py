"""Exceptions that travel with what pickle forgets of them: their state, cause and context, notes, and the same of all
members of a group (VAL-7).

`pickle.dumps(portable(error))` reads back as the exception itself, so the reader needs nothing but this module.
"""

from __future__ import annotations

import builtins
import copyreg
from typing import Any

CHAIN_LENGTH = 16
"""The longest chain of causes and groups that is followed, because a chain may be endless, or a circle."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a program, and not by the interpreter
#: none before Python 3.11
_GROUPS: tuple[type, ...] = tuple([kind for name, kind in vars(builtins).items() if name == "BaseExceptionGroup"])


class portable:  # noqa: N801 - reads as the verb it is
    """Pickles as the exception given, chain included."""

    def __init__(self, error: BaseException, depth: int = 0, parent: portable | None = None) -> None:
        self._error = error
        self._depth = depth
        #: of one pickle, by exception and depth: the members of a group often have one cause
        self._known: dict[tuple[int, int], portable] = {} if parent is None else parent._known
        self._states: dict[int, _FromState] = {} if parent is None else parent._states

    def __reduce__(self) -> tuple[Any, ...]:
        error = self._error
        notes = tuple(getattr(error, "__notes__", ()))
        cause = self._link(error.__cause__)
        # One of the two, as in a traceback: following both would double the work at every link.
        context = self._link(error.__context__) if cause is None and not error.__suppress_context__ else None
        made = self._made()
        if made is error and not notes and cause is None and context is None:
            return _itself, (error,)
        return _rebuild, (made, cause, context, error.__suppress_context__, notes)

    def _link(self, error: BaseException | None) -> portable | None:
        if error is None or self._depth >= CHAIN_LENGTH:
            return None
        key = id(error), self._depth + 1
        if key not in self._known:
            self._known[key] = portable(error, self._depth + 1, self)
        return self._known[key]

    def _made(self) -> BaseException | _FromState:
        """The exception, if pickle makes it again as it is. Pickle calls the class with `args`, which are not what a
        class with an `__init__` of its own was called with; and it knows nothing of the members of a group."""
        error = self._error
        kind: Any = type(error)
        base: Any = kind
        while base.__flags__ & _HEAP_TYPE:
            base = base.__base__
        is_group = issubclass(base, _GROUPS) and self._depth < CHAIN_LENGTH
        has_own_code = kind.__init__ is not base.__init__ or kind.__new__ is not base.__new__
        if not (is_group or has_own_code) or not _has_usual_state(kind, base):
            return error
        reduced: Any = error.__reduce__()
        _, args, *rest = reduced
        state = dict(rest[0] or {}) if rest else {}
        for name in copyreg._slotnames(kind):  # type: ignore[attr-defined]
            if hasattr(error, name):
                state[name] = getattr(error, name)
        if is_group:
            return _FromState(kind, base, (args[0], [self._link(one) for one in error.exceptions]), state)  # type: ignore[attr-defined]
        # One for each exception, so that a circle of causes comes out as a circle.
        return self._states.setdefault(id(error), _FromState(kind, base, args, state))


class _FromState:
    """Pickles as an exception that is made without the code of its class."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, self._parts


def _has_usual_state(kind: type, base: type) -> bool:
    """Returns whether the class leaves its pickling to the interpreter's class that it derives from."""
    names = ("__reduce__", "__reduce_ex__", "__setstate__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")
    return kind not in copyreg.dispatch_table and all(
        getattr(kind, name, None) is getattr(base, name, None) for name in names
    )


def _from_state(kind: Any, base: Any, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error: BaseException = base.__new__(kind, *args)
    base.__init__(error, *args)
    return _with(error, state)


def _itself(error: BaseException) -> BaseException:
    return error


def _rebuild(
    error: BaseException,
    cause: BaseException | None,
    context: BaseException | None,
    suppress_context: bool,
    notes: tuple[str, ...],
) -> BaseException:
    links = {"__cause__": cause, "__context__": context, "__suppress_context__": suppress_context}
    return _with(error, {**links, "__notes__": list(notes)} if notes else links)


def _with(error: BaseException, state: dict[str, Any]) -> BaseException:
    """By the interpreter's own code: that of the class may refuse, such as of a frozen dataclass."""
    for name, value in state.items():
        BaseException.__setattr__(error, name, value)
    return error
