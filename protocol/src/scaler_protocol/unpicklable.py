"""Which part of a value cannot be pickled, where the program has it from, and the way out.

The parts of a value are tried one by one, as deep as one of them fails. That happens after a failure only. Each trial
runs the code of the value's classes again.
"""

from __future__ import annotations

import functools
import inspect
import io
import reprlib
import sys
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

from scaler_protocol.definitions import is_importable, reduces_itself
from scaler_protocol.lost_modules import send_lost_module

MOST_STEPS = 50
"""So deep a part is looked for. Data that is nested more deeply is told as far as this."""


class Part(NamedTuple):
    """A part of a value. `kind` says what it is of its owner, such as a global variable; empty: it is inside of the
    part before, and `name` is what stands behind that in an expression."""

    value: Any
    name: str
    kind: str = ""
    owner: str = ""
    holder: type | None = None  #: the class of the object of which it is an attribute


def reason_of(value: Any, error: Exception, failure_of: Callable[[Any], Exception | None]) -> str:
    """Returns the error, and after it which part of the value has raised it and what to do.

    Args:
        value: the pickling of which has raised `error`.
        failure_of: tries to pickle a part, and returns what that raises. It may raise interrupts of the program.
    """
    steps = _steps(value, failure_of)
    part = steps[-1].value if steps else value
    holder = next((step.holder for step in reversed(steps) if step.holder is not None), None)
    advice = _advice(part, holder)
    told = str(error)
    if steps:
        told = f"{failure_of(part) or error}. It comes from {_place(steps)}, of type {type(part).__qualname__}"
    return f"{told}. {advice}" if advice else told


def _steps(value: Any, failure_of: Callable[[Any], Exception | None]) -> list[Part]:
    """Returns the way from the value to the innermost part that fails."""
    steps: list[Part] = []
    seen = {id(value)}
    while len(steps) < MOST_STEPS:
        for part in parts_of(value):
            if id(part.value) not in seen and failure_of(part.value) is not None:
                break
        else:
            break
        seen.add(id(part.value))
        steps.append(part)
        value = part.value
    return steps


def _place(steps: list[Part]) -> str:
    """Returns the last part as the program writes it, whose it is, and what refers to that."""
    begin = max((index for index, part in enumerate(steps) if part.kind), default=0)
    part = steps[begin]
    name = part.name + "".join(step.name for step in steps[begin + 1 :])
    way = [one.name for one in steps[:begin] if one.kind and one.kind != "the class"]
    by_way_of = f" (by way of {', '.join(way)})" if way else ""
    return (f"{part.kind} {name} of {part.owner}" if part.kind else f"{name.lstrip('.')} in it") + by_way_of


def _advice(part: Any, holder: type | None) -> str:
    if isinstance(part, GeneratorType):
        return "Send list(...) of the generator"
    if isinstance(part, io.IOBase):
        return "Send the path of the file, and open it in the task"
    if isinstance(part, FunctionType | type) or _is_of_program(type(part)) or reduces_itself(type(part)):
        return ""  # the error is one of Python code, which may give advice of its own
    advice = "Make it in the task, or once for each process with scaler.worker_state()"
    if holder is None or not _is_of_program(holder):
        return advice
    return f"{advice}; or let {holder.__qualname__}.__getstate__ leave it out of what is sent"


def _is_of_program(kind: type) -> bool:
    top = str(kind.__module__).partition(".")[0]
    return top == "__main__" or (top not in sys.stdlib_module_names and not is_importable(kind))


# ------------------------------------------------------------ what a value is made of


def parts_of(value: Any) -> Iterator[Part]:
    """Yields what pickling a value goes through next."""
    kind = type(value)
    if issubclass(kind, type):
        yield from () if is_importable(value) else _parts_of_class(value)
    elif kind is FunctionType:
        yield from () if is_importable(value) else _parts_of_function(value)
    elif kind in _PARTS:
        yield from _PARTS[kind](value)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            yield Part(key, f".keys()[{reprlib.repr(key)}]")
            yield Part(item, f"[{reprlib.repr(key)}]")
    elif isinstance(value, list | tuple):
        yield from (Part(item, f"[{index}]") for index, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (Part(item, f"[{reprlib.repr(item)}]") for item in list(value))
    else:
        yield from _parts_of_object(value)


def _parts_of_function(function: FunctionType) -> Iterator[Part]:
    owner = f"the function {function.__qualname__}"
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        around = f"the function around {function.__qualname__}"
        yield from (Part(item.value, name, "the variable", around) for item in _cell(cell))
    for name in dict.fromkeys(_names(code)):
        if name in function.__globals__:
            yield Part(function.__globals__[name], name, "the global variable", owner)
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    named = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    for name, default in {**named, **(function.__kwdefaults__ or {})}.items():
        yield Part(default, name, "the default of the parameter", owner)
    for name, item in vars(function).items():
        yield Part(item, name, "the attribute", owner)
    for name, item in inspect.get_annotations(function).items():
        yield Part(item, name, "the annotation", owner)


def _parts_of_class(kind: type) -> Iterator[Part]:
    owner = f"the class {kind.__qualname__}"
    for base in kind.__bases__:
        yield Part(base, base.__qualname__, "the base class", owner)
    yield Part(type(kind), type(kind).__qualname__, "the metaclass", owner)
    for name, item in list(vars(kind).items()):
        if name not in ("__dict__", "__weakref__", "_abc_impl"):
            yield Part(item, name, "the class attribute", owner)


def _parts_of_object(value: Any) -> Iterator[Part]:
    try:
        reduced = value.__reduce_ex__(5)
    except Exception:  # noqa: BLE001  # the object refuses itself, and its error says why
        return
    kind = type(value)
    yield Part(kind, kind.__qualname__, "the class", "an object")
    state = _state_of(value)
    for name, item in state.items():
        yield Part(item, f".{name}", holder=kind)
    if isinstance(reduced, tuple):
        for item in reduced[1:3]:
            if not isinstance(item, dict) or item.keys() != state.keys():
                yield Part(item, ".__reduce__()")


def _state_of(value: Any) -> dict[str, Any]:
    slots = [name for base in type(value).__mro__ for name in _slots(vars(base).get("__slots__", ()))]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**own, **getattr(value, "__dict__", {})}


def _slots(slots: Any) -> list[str]:
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _parts_of_module(module: ModuleType) -> Iterator[Part]:
    send_lost_module(module.__name__)
    for name, item in list(vars(module).items()):
        if name != "__builtins__":
            yield Part(item, name, "the variable", f"the module {module.__name__}")


def _cell(cell: CellType) -> Iterator[Part]:
    try:
        yield Part(cell.cell_contents, ".cell_contents")
    except ValueError:  # it is empty
        return


def _parts_of_partial(value: Any) -> Iterator[Part]:
    yield Part(value.func, ".func")
    yield from (Part(item, f".args[{index}]") for index, item in enumerate(value.args))
    yield from (Part(item, f".keywords[{name!r}]") for name, item in value.keywords.items())


def _attributes(*names: str) -> Callable[[Any], Iterator[Part]]:
    return lambda value: (Part(getattr(value, name), f".{name}") for name in names if hasattr(value, name))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _parts_of_method(method: MethodType) -> Iterator[Part]:
    kind = type(method.__self__)
    if not issubclass(kind, type):
        owner = f"the {kind.__qualname__} that the method belongs to"
        yield from (Part(item, name, "the attribute", owner, kind) for name, item in _state_of(method.__self__).items())
    yield Part(method.__self__, ".__self__")
    yield Part(method.__func__, ".__func__")


_PARTS: dict[type, Callable[[Any], Iterator[Part]]] = {
    MethodType: _parts_of_method,
    ModuleType: _parts_of_module,
    CellType: _cell,
    functools.partial: _parts_of_partial,
    functools.partialmethod: _parts_of_partial,
    functools.cached_property: _attributes("func"),
    type(functools.lru_cache(len)): _attributes("__wrapped__"),
    property: _attributes("fget", "fset", "fdel"),
    classmethod: _attributes("__func__"),
    staticmethod: _attributes("__func__"),
}
