"""Tells which functions calls can share, because no call can leave anything in them. (decision 0025)

A call carries values: the next call must not see what this one does to its function. A processor that reads each
function anew for each call would be right, and slow: reading a function that travels by value takes as long as half of
a small task, and as ten such tasks if it brings a class. So a function is looked at once, when it is first read. Calls
share it if nothing that was read with it can be changed: constants, modules, what is imported by name, and other such
functions. Each call reads all others anew. In doubt the answer is no, which only costs time.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from functools import partial
from opcode import opmap
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

_CONSTANTS = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range)
)  # fmt: skip
_MORE_CONSTANTS = frozenset(
    (
        *("datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone"),
        *("decimal.Decimal", "fractions.Fraction", "re.Pattern", "uuid.UUID", "zoneinfo.ZoneInfo"),
        *("pathlib.PosixPath", "pathlib.PurePosixPath", "numpy.float64", "numpy.int64"),
    )
)
"""Types of the standard library and of NumPy that most processors need not import for this."""

_GLOBAL = {opmap["STORE_GLOBAL"], opmap["DELETE_GLOBAL"]}
_CELL = {opmap["STORE_DEREF"], opmap["DELETE_DEREF"]}
_ATTRIBUTE = {opmap["STORE_ATTR"], opmap["DELETE_ATTR"]}
_WAYS_IN = frozenset(
    (
        *("globals", "vars", "exec", "eval", "setattr", "delattr", "cell_contents", "f_globals", "f_back", "gc"),
        *("__dict__", "__globals__", "__builtins__", "__closure__", "__annotations__", "__kwdefaults__", "__wrapped__"),
        *("__setattr__", "__delattr__", "__getattribute__", "__setstate__", "__main__"),
    )
)
"""Names, also in a text constant, by which code reaches the namespaces and attributes of functions."""


def can_be_shared(function: Any) -> bool:
    """Returns whether calls in one process can have the same function object, and none sees what another has done.

    A function that was read together with a class that travels by value never can (`classes.Count`)."""
    look = _Look()
    while type(function) is partial and not function.__reduce__()[2][3]:
        if not look.all((*function.args, *function.keywords.values())):
            return False
        function = function.func
    return look.at(function) and not (look.refers_to_own and look.sets_attributes)


class _Look:
    def __init__(self) -> None:
        self._seen: set[int] = set()
        #: a function that was read has another such function, or itself, within reach
        self.refers_to_own = False
        self.sets_attributes = False

    def all(self, values: Iterable[Any]) -> bool:
        return all(map(self._is_constant, values))

    def _is_constant(self, value: Any) -> bool:
        self.refers_to_own |= type(value) is FunctionType and not _is_imported(value)
        return self.at(value)

    def at(self, value: Any) -> bool:
        kind = type(value)
        if kind in _CONSTANTS:
            return True
        if kind is tuple or kind is frozenset:
            return self.all(value)
        if _is_imported(value):
            return True
        if kind is FunctionType:
            return self._is_constant_function(value)
        if kind is MethodType:
            return isinstance(value.__self__, type) and _is_imported(value.__self__)
        if kind is ModuleType:
            return sys.modules.get(value.__name__) is value
        if kind is MethodDescriptorType or kind is WrapperDescriptorType:
            return True
        if kind is logging.Logger:
            return logging.getLogger(value.name) is value
        return f"{kind.__module__}.{kind.__qualname__}" in _MORE_CONSTANTS and _is_imported(kind)

    def _is_constant_function(self, function: FunctionType) -> bool:
        if id(function) in self._seen:
            return True
        self._seen.add(id(function))
        codes = list(_codes(function.__code__))
        for code in codes:
            steps = set(code.co_code[::2])
            if steps & _GLOBAL or (function.__closure__ and steps & _CELL) or not _WAYS_IN.isdisjoint(_texts(code)):
                return False
            self.sets_attributes |= bool(steps & _ATTRIBUTE)
        keywords = (function.__kwdefaults__ or {}).values()
        if not self.all((*(function.__defaults__ or ()), *keywords, *function.__dict__.values())):
            return False
        try:
            enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            return False  # one is empty
        names = {name for code in codes for name in code.co_names}
        space = function.__globals__
        return self.all(enclosed) and self.all(space[name] for name in names if name in space)


def _is_imported(value: Any) -> bool:
    """Tells whether this very object is what its name says, in a module that was imported."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(name, str):
        return False
    if type(value) is BuiltinFunctionType:
        owner = value.__self__
        if not (owner is None or type(owner) is ModuleType or (isinstance(owner, type) and _is_imported(owner))):
            return False
        if module is None:
            return True  # a class method of a class that is written in C
    found = sys.modules.get(module) if isinstance(module, str) and module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _codes(code: CodeType) -> Iterable[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _texts(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    yield from (constant for constant in code.co_consts if type(constant) is str)
