"""The `__main__` of a processor: it has the names of the main program as far as the running task has them.

Plain pickle writes classes and functions of a main program as names in `__main__`, for instance in `pickle.dumps` and
`shelve`. A task has such classes and functions by value. Here their names lead to them. A name is looked for when it is
needed, so a task that needs none pays nothing.

Other processes do not find what this one finds. A process pool would lose the call, and wait for its result without
end. So while the task has processes of `multiprocessing`, no name is found, and pickling for them fails at once. The
error has advice as a note. (unreadable.py)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

from cloudpickle import cloudpickle

from scaler_protocol import task_context

MAIN = "__main__"


class MainNames(ModuleType):
    """Takes the place of the module that was started as a program."""

    def __init__(self) -> None:
        super().__init__(MAIN, "The names of the main program that the running task has.")
        self._before = sys.modules.get(MAIN)  # its functions run on, and need their module

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and task_context.current() is not None and not _has_processes():
            for value in _with_name(name):
                return value
        raise AttributeError(f"module {MAIN!r} has no attribute {name!r}")


def _has_processes() -> bool:
    context, process = (sys.modules.get(f"multiprocessing.{name}") for name in ("context", "process"))
    if context is None or process is None:
        return False
    return context.get_spawning_popen() is not None or bool(process.active_children())


def _with_name(name: str) -> Iterator[Any]:
    """Yields what the functions that run in this process refer to by this name, and what has it as its own name."""
    for frame in tuple(sys._current_frames().values()):
        step: FrameType | None = frame
        while step is not None:
            if step.f_globals.get("__name__") == MAIN and name in step.f_globals:
                yield step.f_globals[name]
            yield from (value for value in tuple(step.f_locals.values()) if _is_named(value, name))
            step = step.f_back
    tracked = [*cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.values()]
    yield from (kind for kind in reversed(tracked) if _is_named(kind, name))


def _is_named(value: Any, name: str) -> bool:
    if not issubclass(type(value), FunctionType | type):
        return False
    return bool(value.__module__ == MAIN and value.__qualname__ == name)
