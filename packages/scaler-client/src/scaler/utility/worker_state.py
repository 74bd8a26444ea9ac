"""What tasks need and is dear to make, such as a model or a connection: made once in each process that runs tasks.

A processor runs the tasks of many programs, one after another. What one program has made there, another does not get:
it is kept by family (STO-33), as loaded functions are (WRK-43).
"""

from __future__ import annotations

import inspect
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, cast, overload

from scaler_protocol import task_context, waits

T = TypeVar("T")
P = ParamSpec("P")

MOST_STATES = 64
"""Of all programs together, in one process."""

logger = logging.getLogger("scaler.worker_state")


@overload
def worker_state(factory: Callable[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
def worker_state(factory: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def worker_state(factory: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What `factory(*args, **kwargs)` returned when it was first asked for in this process.

    Call it inside of a task: each processor of each worker makes the value once, for all tasks of this program that it
    runs. Outside of a task it does the same for the present process.

    A value is known by the code of `factory`, its defaults, what it encloses, and the arguments. All of these must be
    hashable. A changed global variable is not noticed: pass it as an argument. If `factory` raises, its error is the
    task's, and the next task tries again.

    If `factory` is a generator function, what it yields is the value, and what stands behind the `yield` runs when the
    value is dropped: when the processor ends in order, within 1.5 s, or when more than 64 other values were asked for
    since. It does not run when a processor is killed, such as after a task that did not stop.

    Args:
        factory: makes the value.
        *args: its arguments.
        **kwargs: the same by name.

    Raises:
        TypeError: an argument, or what `factory` encloses, is not hashable.
    """
    context = task_context.current()
    family = context.family if context is not None else b""
    try:
        key = family, _identity(factory), args, frozenset(kwargs.items())
        hash(key)
    except TypeError:
        raise TypeError(
            "worker_state() knows a value by its factory, what that encloses, and the arguments: all must be hashable "
            "(give the name of a file rather than its content)"
        ) from None
    return _states.get(key, partial(factory, *args, **kwargs))


class _States:
    def __init__(self) -> None:
        self._lock = waits.RLock()  #: a factory may ask for another state
        #: `end` is called at the end of the process
        self._is_noted = False
        self._values: OrderedDict[Hashable, tuple[Any, AbstractContextManager[Any] | None]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._values:
                value = _made(make)
                if not self._is_noted:
                    task_context.at_process_end(self.end)
                    self._is_noted = True
                self._values[key] = value
                while len(self._values) > MOST_STATES:
                    self._drop_oldest()
            self._values.move_to_end(key)
            return self._values[key][0]

    def end(self) -> None:
        """In the reverse order of their last use: what a state was made from outlives it."""
        with self._lock:
            self._is_noted = False
            while self._values:
                _end(self._values.popitem()[1][1])

    def _drop_oldest(self) -> None:
        _end(self._values.popitem(last=False)[1][1])


_states = _States()


def _begin_child() -> None:
    """A value may be a connection, which two processes must not share."""
    global _states
    _states = _States()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def _made(make: Callable[[], Any]) -> tuple[Any, AbstractContextManager[Any] | None]:
    factory = make.func if isinstance(make, partial) else make
    if not inspect.isgeneratorfunction(factory):
        return make(), None
    manager = contextmanager(cast(Callable[[], Iterator[Any]], make))()
    return manager.__enter__(), manager


def _end(manager: AbstractContextManager[Any] | None) -> None:
    if manager is None:
        return
    try:
        manager.__exit__(None, None, None)
    except Exception:
        logger.exception("a state of worker_state() failed to end")


def _identity(factory: Any) -> Hashable:
    """Equal for two copies of one function: each function that names it arrives with a copy of its own."""
    if isinstance(factory, partial):
        return _identity(factory.func), factory.args, frozenset(factory.keywords.items())
    if isinstance(factory, MethodType):
        return _identity(factory.__func__), factory.__self__
    if not isinstance(factory, FunctionType):
        return cast(Hashable, factory)
    enclosed = tuple(cell.cell_contents for cell in factory.__closure__ or ())
    defaults = factory.__defaults__, frozenset((factory.__kwdefaults__ or {}).items())
    return factory.__module__, factory.__qualname__, factory.__code__, enclosed, defaults
