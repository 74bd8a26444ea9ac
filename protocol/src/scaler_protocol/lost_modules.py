"""Modules of this process that no other one could import, though `sys.modules` has them. They travel by value."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from types import ModuleType
from typing import Any

from cloudpickle import cloudpickle

_judged: dict[str, ModuleType] = {}
"""The modules that were looked for, by name. It is never longer than `sys.modules` has been."""


def send_lost_module(name: Any) -> None:
    """Registers a module with cloudpickle if its name finds no module, or another one: the program has made it, or has
    loaded its file by itself, as loaders of plugins do. Each module is looked for once."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or _judged.get(name) is module or name == "__main__" or not isinstance(module, ModuleType):
        return
    _judged[name] = module
    if _is_lost(name, module):
        cloudpickle.register_pickle_by_value(module)


def _is_lost(name: str, module: ModuleType) -> bool:
    above, _, _ = name.rpartition(".")
    path = None
    if name.partition(".")[0] in sys.stdlib_module_names:
        return False
    if above:
        send_lost_module(above)  # registered, it is so for all modules below it
        parent = sys.modules.get(above)
        if parent is None:
            return True
        path = getattr(parent, "__path__", None)
        if path is None:
            return False
    try:
        found = _found(name, path)
    except Exception:  # noqa: BLE001  # a finder of the program's own, which may raise what it likes
        return False
    file = getattr(module, "__file__", None)
    if found is None:
        # What an importable package makes below itself, it makes wherever it is imported.
        return not above or _is_source(file)
    if not (_is_source(file) and _is_source(found.origin)):
        return False
    # No PYTHONPATH can tell another process of a directory with the separator in its name.
    return not _is_same(str(file), str(found.origin)) or (os.pathsep in str(file) and os.name == "posix")


def _found(name: str, path: Any) -> ModuleSpec | None:
    """Returns what an import of this name would find, without the import. `path`: that of the package it is in."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def _is_source(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(tuple(SOURCE_SUFFIXES))


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # in an archive, or gone
        return os.path.normcase(os.path.abspath(one)) == os.path.normcase(os.path.abspath(other))
