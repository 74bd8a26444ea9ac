"""Functions that tasks name instead of bringing them, so that programs in any language can call them. (BAT-12)

They are the public functions of the modules in `--functions`: what `__all__` lists, else whatever is defined in the
module and does not begin with an underscore. A module is imported when the first task names a function; of two
functions with one name that of the earlier module counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

PREFIX = b"name:"


class NamedFunctions:
    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = tuple(modules)
        self._functions: dict[str, Callable[..., Any]] | None = None

    def find(self, content: bytes) -> Callable[..., Any]:
        """The function that these bytes name. Whatever it raises says what the operator has to do."""
        name = content[len(PREFIX) :].decode()
        if not self._modules:
            raise LookupError(f"it is function {name!r} by name, and this worker was started without --functions")
        if self._functions is None:
            self._functions = self._collected()
        if name not in self._functions:
            raise LookupError(f"there is no function {name!r} in {', '.join(self._modules)}")
        return self._functions[name]

    def _collected(self) -> dict[str, Callable[..., Any]]:
        found: dict[str, Callable[..., Any]] = {}
        for name in reversed(self._modules):
            found.update(public_functions(importlib.import_module(name)))
        return found


def public_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """What a module offers under its own names."""
    listed = getattr(module, "__all__", None)
    names = [name for name in vars(module) if not name.startswith("_")] if listed is None else listed
    return {
        name: function
        for name in names
        if callable(function := getattr(module, name, None))
        and (listed is not None or getattr(function, "__module__", None) == module.__name__)
    }
