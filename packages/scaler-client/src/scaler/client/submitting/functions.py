"""Serializing functions once: which can be remembered, and for how long. (CLI-3)

A function that workers import is named by its place and can be remembered for ever. One that travels by value carries
what it refers to: the globals it uses, its closure, its defaults. Running a notebook cell again may replace any of
these while the function stays the same object, so its bytes are used again only while everything it can see is
identical and cannot have changed inside. Whatever is not certain is serialized anew each time.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from functools import partial
from operator import is_not
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from cloudpickle import cloudpickle

from scaler.client.objects.functions import StoredFunction
from scaler_protocol import waits

REMEMBERED_FUNCTIONS = 512
REMEMBERED_BYTES = 4 * 1024 * 1024
"""Of all that are remembered, when serialized; the one used last is kept whatever its size."""
_UNCHANGING = frozenset((int, float, complex, bool, str, bytes, type(None)))
_OF_ANNOTATIONS = frozenset(("types", "typing"))
"""The modules whose types stand in annotations, such as that of `list[int]`."""
_NOTHING = "no ".join(("", "thing"))
"""Stands for a global or enclosed variable without a value. It is compared by identity, so it must be an object that
the interpreter does not share with equal constants of a program."""


class SentAlong(NamedTuple):
    """A function that has been used once, and went with its call. (along.py)"""

    content: bytes
    has_code: bool

    @property
    def size(self) -> int:
        return len(self.content)


_Remembered = tuple[Any, tuple[Any, ...], StoredFunction | SentAlong]
"""A function, what it was made of, and what was made of it."""


class FunctionMemory:
    """The functions used last and what was made of them. Safe in any thread.

    To look at a function runs code of others, and to let go of one may run a destructor. Neither happens with the lock.
    """

    def __init__(self) -> None:
        self._lock = waits.RLock()
        # By identity, because functions may define equality; the function is kept so that its id stays its own.
        self._known: OrderedDict[int, _Remembered] = OrderedDict()
        self._bytes = 0
        #: the function used last and what was made of it, if workers import it
        self._latest: tuple[Any, StoredFunction | None] = None, None
        #: the modules whose functions are sent with their code
        self._by_value = cloudpickle.list_registry_pickle_by_value()

    def latest(self, function: Any) -> StoredFunction | None:
        """The same as `recall`, or None. Programs call the same function again and again: this needs no lock."""
        latest, made = self._latest
        if latest is function and self._by_value == cloudpickle.list_registry_pickle_by_value():
            return made
        return None

    def recall(self, function: Any) -> StoredFunction | SentAlong | None:
        """What was remembered for this function, or None when it is new or may have changed."""
        if self._by_value != cloudpickle.list_registry_pickle_by_value():
            self._by_value = cloudpickle.list_registry_pickle_by_value()
            self.clear()
        number = id(function)
        known = self._known.get(number)
        if known is None or known[0] is not function:
            return None
        if known[1]:
            seen = fingerprint(function)
            if seen is None or len(seen) != len(known[1]) or any(map(is_not, seen, known[1])):
                self._forget(number, known)
                return None
        with self._lock:
            if self._known.get(number) is known:
                self._known.move_to_end(number)
        if not known[1] and isinstance(known[2], StoredFunction):
            self._latest = function, known[2]
        else:
            self._latest = None, None
        return known[2]

    def remember(self, function: Any, made: StoredFunction | SentAlong) -> None:
        seen = () if travels_by_name(function) else fingerprint(function)
        if seen is None:
            return
        number, known = id(function), (function, seen, made)
        gone = [self._forget(number, self._known.get(number))]
        with self._lock:
            self._known[number] = known
            self._bytes += made.size
            while len(self._known) > 1 and (len(self._known) > REMEMBERED_FUNCTIONS or self._bytes > REMEMBERED_BYTES):
                oldest = next(iter(self._known))
                gone.append(self._forget(oldest, self._known[oldest]))

    def clear(self) -> None:
        self._latest = None, None
        with self._lock:
            gone, self._known = self._known, OrderedDict()
            self._bytes = 0
        del gone  # without the lock

    def _forget(self, number: int, known: _Remembered | None) -> _Remembered | None:
        """Returns what was forgotten, for the caller to let go of it without the lock."""
        self._latest = None, None
        with self._lock:
            if known is not None and self._known.get(number) is known:
                del self._known[number]
                self._bytes -= known[2].size
        return known


def travels_by_name(value: Any) -> bool:
    """True when the other side imports it: then its bytes are its module and name."""
    module_name = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(name, str) or module_name == "__main__":
        return False
    if not isinstance(value, FunctionType | BuiltinFunctionType | type) or _is_registered_by_value(module_name):
        return False
    found: Any = sys.modules.get(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _is_registered_by_value(module_name: str) -> bool:
    by_value = cloudpickle.list_registry_pickle_by_value()
    parts = module_name.split(".")
    return any(".".join(parts[:end]) in by_value for end in range(1, len(parts) + 1))


def fingerprint(function: Any) -> tuple[Any, ...] | None:
    """Everything a function that travels by value can see, in a fixed order; None when some of it could change."""
    seen: list[Any] = []
    return tuple(seen) if _look(function, seen, set()) else None


def _look(value: Any, seen: list[Any], visited: set[int]) -> bool:
    """Append what `value` is made of. False: it could change without becoming another object."""
    seen.append(value)
    if type(value) in _UNCHANGING or id(value) in visited or travels_by_name(value) or value is type(None):
        return True
    if isinstance(value, ModuleType):
        return _is_named_module(value)
    if type(value) is tuple:
        return all(_look(item, seen, visited) for item in value)
    if type(value).__module__ in _OF_ANNOTATIONS:
        parameters = getattr(value, "__args__", None)
        if type(parameters) is tuple:
            return all(_look(item, seen, visited) for item in (getattr(value, "__origin__", None), *parameters))
        return type(value).__name__.startswith("_Special")  # such as `typing.Union`
    if type(value) is partial:
        # What its keywords are may be replaced inside the same partial, so their names are looked at as well.
        inside = [value.func, value.args, *value.keywords, *value.keywords.values()]
        # To ask it for its `__dict__` would make one, and change its pickle.
        attributes = value.__reduce__()[2][3]
        return not attributes and all(_look(item, seen, visited) for item in inside)
    if not isinstance(value, FunctionType) or value.__dict__ or value.__kwdefaults__:
        return False
    visited.add(id(value))
    seen.append(value.__code__)
    annotations = value.__annotations__
    inside = [*(value.__defaults__ or ()), *_closure(value), *_globals(value), *annotations, *annotations.values()]
    seen += value.__name__, value.__qualname__, value.__module__, value.__doc__
    return all(_look(item, seen, visited) for item in inside)


def _is_named_module(module: ModuleType) -> bool:
    """True when the other side imports it; else its namespace travels, which may change."""
    return sys.modules.get(module.__name__) is module and not _is_registered_by_value(module.__name__)


def _closure(function: FunctionType) -> list[Any]:
    cells = function.__closure__ or ()
    # An empty cell raises ValueError: a function that is not finished yet. Its emptiness is then what is seen.
    contents = []
    for cell in cells:
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            contents.append(_NOTHING)
    return contents


def _globals(function: FunctionType) -> list[Any]:
    found = function.__globals__.get
    return [found(name, _NOTHING) for name in _names(function.__code__)]


def _names(code: CodeType) -> list[str]:
    """Every name the code and the code inside it may look up globally: more than it does, never less."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _names(constant)
    return names
