"""Definitions that travel and that the reader cannot import: classes, and what decorators and `typing` make.

cloudpickle sends functions and classes of the main program by value. This module has the reducers that it lacks, or
whose result is not what was sent. What a reducer returns is read by cloudpickle or by a function of this module, so the
names of those functions are in stored bytes: they never go away.

* A class is made again without its contents, which are set afterwards, because they may refer to the class. Only
  `__slots__` comes first, because it decides over the layout. A hook of a base class or of a metaclass that travels by
  value does not run again: what it did in the program is among the contents.
* A thing that pickle writes as a name (`NewType`, `type X = ...`, `ParamSpec`, a mark such as MISSING) is sent by what
  it is made of if the name cannot be imported. As classes, each is one object in a process, however often it is read.
* A module that no worker can find, because the program has made it or has loaded its file by itself, is registered by
  `cloudpickle.register_pickle_by_value`, as the program could do it.
"""

from __future__ import annotations

import abc
import contextlib
import copyreg
import enum
import functools
import sys
import threading
import typing
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any

from cloudpickle import cloudpickle

from scaler_protocol import classes, waits
from scaler_protocol.lost_modules import send_lost_module

_HEAP_TYPE = 1 << 9  #: in the `__flags__` of a class: it was made by Python code or looks as if

_MADE_ANEW = frozenset(("__module__", "__dict__", "__weakref__", "__annotate_func__"))
"""Attributes of a class that are not among its contents: the interpreter makes them."""

_CODE_FIELDS = [
    name
    for name in (
        *(
            "co_argcount",
            "co_posonlyargcount",
            "co_kwonlyargcount",
            "co_nlocals",
            "co_stacksize",
            "co_flags",
            "co_code",
        ),
        *("co_consts", "co_names", "co_varnames", "co_filename", "co_name", "co_qualname", "co_firstlineno"),
        *("co_linetable", "co_exceptiontable", "co_freevars", "co_cellvars"),
    )
    if hasattr(CodeType, name)
]
"""The parameters of `types.CodeType`, in their order."""
_COPIED_FIELDS = frozenset(("co_names", "co_varnames", "co_name", "co_freevars", "co_cellvars"))


def fields_of_code(code: CodeType) -> tuple[Any, ...]:
    """Returns what `types.CodeType` makes this code of, with its own file name.

    cloudpickle writes the same, but from 3.1.3 on `<dynamic-code>` for the file, which leaves tracebacks, stacks and
    profiles without lines. Names are copied as it does it: the interpreter may share them with other objects, pickle
    would write such a one as a reference, and equal functions must have equal bytes.
    """
    return tuple(
        [_copied(getattr(code, name)) if name in _COPIED_FIELDS else getattr(code, name) for name in _CODE_FIELDS]
    )


def _copied(name: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return "".join(name) if isinstance(name, str) else (*name,)


def is_importable(thing: Any) -> bool:
    """Tells for a function or class whether it travels by name. Registers its module if no worker can find that."""
    send_lost_module(thing.__module__)
    found: bool = cloudpickle._should_pickle_by_reference(thing)
    return found


def reduce_function(function: Any, by_value: Callable[[Any], Any]) -> Any:
    """Returns how pickle writes a function: by name, or as cloudpickle does it with `by_value`."""
    if is_importable(function):
        return NotImplemented
    reduced = by_value(function)
    parameters = getattr(function, "__type_params__", ())
    if parameters:
        reduced[2][1]["__type_params__"] = parameters  # of `def f[T]`; what cloudpickle sets on the function is here
    return reduced


# ------------------------------------------------------------ classes


def reduce_class(kind: Any) -> Any:
    """Returns how pickle writes a class: by name, or by value."""
    if not kind.__flags__ & _HEAP_TYPE:
        return cloudpickle._class_reduce(kind)
    if is_importable(kind):
        return NotImplemented
    tracker = cloudpickle._get_or_create_tracker_id(kind)
    if issubclass(kind, enum.Enum):
        return _enum_reduced(kind, tracker)
    metaclass = type(kind)
    first = {name: vars(kind)[name] for name in ("__module__", "__orig_bases__") if name in vars(kind)}
    if "__slots__" in vars(kind):
        first["__slots__"] = _slots_of(kind)
    if isinstance(vars(kind).get("__dict__"), property):
        first["__dict__"] = vars(kind)["__dict__"]
    state: tuple[dict[str, Any], dict[str, Any]] = _contents_of(kind), {}
    maker = _maker_of(metaclass)
    if maker is not metaclass or any(map(_has_own_hook, kind.__mro__[1:])):
        made: Any = make_class, (maker, metaclass, kind.__name__, kind.__bases__, first, tracker)
        return *made, state, None, None, set_contents
    made = cloudpickle._make_skeleton_class, (metaclass, kind.__name__, kind.__bases__, first, tracker, None)
    return *made, state, None, None, cloudpickle._class_setstate


def _enum_reduced(kind: Any, tracker: str) -> Any:
    """Returns how pickle writes this enum. Its members are made of their values, with all names of each, and get their
    other attributes afterwards."""
    members = {name: member.value for name, member in kind.__members__.items()}
    contents = {name: value for name, value in cloudpickle._enum_getstate(kind)[0].items() if name not in members}
    own = {member.name: _own_attributes(member) for member in kind.__members__.values()}
    made = (
        cloudpickle._make_skeleton_enum,
        (kind.__bases__, kind.__name__, kind.__qualname__, members, kind.__module__, tracker, None),
    )
    if not any(own.values()):
        return *made, (contents, {}), None, None, cloudpickle._class_setstate
    return *made, (contents, own), None, None, set_enum


_OF_EACH_MEMBER = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"))


def _own_attributes(member: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(member).items() if name not in _OF_EACH_MEMBER}


def set_enum(kind: Any, state: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    contents, own = state
    cloudpickle._class_setstate(kind, (contents, {}))
    for name, attributes in own.items():
        vars(kind._member_map_[name]).update(attributes)


def set_contents(kind: Any, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Sets the attributes of a class that `make_class` has made. A metaclass may refuse such changes in the program."""
    contents = dict(state[0])
    for registered in contents.pop("_abc_impl", ()):
        abc.ABCMeta.register(kind, registered)
    for name, value in contents.items():
        type.__setattr__(kind, name, value)
    if "__firstlineno__" in contents:
        type.__setattr__(kind, "__firstlineno__", contents["__firstlineno__"])  # setting __doc__ and others deletes it


def _slots_of(kind: type) -> tuple[str, ...]:
    """Returns the names of the slots that this class itself adds, as the interpreter has them: private names are
    changed, and `__slots__` may have been an iterator."""
    own = [name for name, value in vars(kind).items() if _is_own_slot(kind, name, value)]
    # A class that a decorator has copied, as dataclass(slots=True) does, may have these of the other one.
    others = [(name, vars(kind).get(name)) for name in ("__dict__", "__weakref__")]
    return (*own, *(name for name, value in others if getattr(value, "__objclass__", None) is kind))


def _is_own_slot(kind: type, name: str, value: Any) -> bool:
    return type(value) is MemberDescriptorType and value.__objclass__ is kind and value.__name__ == name


def _contents_of(kind: type) -> dict[str, Any]:
    """Returns everything that is set on a class when it is made again. An attribute that equals the one of a base is
    an attribute of this class all the same: the base may be changed later."""
    contents = {
        "".join(name): value
        for name, value in sorted(vars(kind).items())
        if name not in _MADE_ANEW and not _is_own_slot(kind, name, value)
    }
    if "__annotate_func__" in vars(kind):  # Python 3.14: they are computed when they are asked for
        with contextlib.suppress(Exception):  # they name something that is not there, as in a program without them
            contents["__annotations__"] = dict(kind.__annotations__)
    if "_abc_impl" in contents:
        contents["_abc_impl"] = [found for found in (one() for one in _registered(kind)) if found is not None]
    return contents


def _registered(kind: type) -> Any:
    return abc._get_dump(kind)[0]  # type: ignore[attr-defined]  # as cloudpickle does


class _Keys(typing.TypedDict):
    pass


_DICT_MAKER = type(_Keys)
"""This metaclass only makes classes whose bases it has made itself; theirs is `dict` in the end."""


def _maker_of(metaclass: type) -> type:
    """Returns the nearest metaclass that a reader can import, and that makes a class of its final bases."""
    if metaclass is _DICT_MAKER:
        return type
    return next(one for one in metaclass.__mro__ if one is type or is_importable(one))


def _has_own_hook(base: type) -> bool:
    """Tells whether `__init_subclass__` of this class has run in the program and must not, or cannot, run again."""
    hook = vars(base).get("__init_subclass__")
    if base is object or hook is None:
        return False
    return not is_importable(base) or _needs_keywords(hook)


def _needs_keywords(hook: Any) -> bool:
    function = getattr(hook, "__func__", hook)
    code, given = getattr(function, "__code__", None), getattr(function, "__kwdefaults__", None) or {}
    if code is None:
        return False
    return bool(code.co_kwonlyargcount > len(given))


class _Making(threading.local):
    is_quiet = False  #: this thread makes a class whose hook has run elsewhere


_making = _Making()
_making_lock = waits.RLock()


def make_class(
    maker: Any, metaclass: Any, name: str, bases: tuple[Any, ...], first: dict[str, Any], tracker: str
) -> Any:
    """Returns the class of this process that has this tracker, or a new one without contents. No hook runs for it."""
    known = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    if known is not None:
        return known
    namespace = {sys.intern(name): value for name, value in first.items()}
    with _without_hook(bases):
        made = maker.__new__(metaclass, name, bases, namespace)
    return cloudpickle._lookup_class_or_track(tracker, made)


@contextlib.contextmanager
def _without_hook(bases: tuple[Any, ...]) -> Iterator[None]:
    """Passes over the `__init_subclass__` of these bases in this thread. A class that another thread derives from them
    meanwhile calls it."""
    order = chain.from_iterable(base.__mro__ for base in bases)
    base = next((one for one in order if one is not object and "__init_subclass__" in vars(one)), object)
    hook = vars(base)["__init_subclass__"]

    def passed_over(kind: type, /, **keywords: Any) -> None:
        if not _making.is_quiet:
            hook.__get__(None, kind)(**keywords)

    if base is object:
        yield
        return
    with _making_lock:
        type.__setattr__(base, "__init_subclass__", classmethod(passed_over))
        _making.is_quiet = True
        try:
            yield
        finally:
            _making.is_quiet = False
            type.__setattr__(base, "__init_subclass__", hook)


# ------------------------------------------------------------ things that pickle would write as a name


def _has_name(thing: Any, name: str) -> bool:
    """Tells whether a reader can import it under this name."""
    send_lost_module(getattr(thing, "__module__", None))
    found = cloudpickle._lookup_module_and_qualname(thing, name)
    return found is not None and not bool(cloudpickle._is_registered_pickle_by_value(found[0]))


def _by_name(thing: Any) -> str | None:
    name: str = getattr(thing, "__qualname__", thing.__name__)
    return name if _has_name(thing, name) else None


def reduces_itself(kind: Any) -> bool:
    """Tells whether a class says in Python code how its instances are pickled. Called for nearly each object."""
    return type(kind.__reduce__) is FunctionType or type(kind.__reduce_ex__) is FunctionType


def reduce_by_itself(thing: Any) -> Any:
    """Returns what an object says itself, unless that is the name of something in the main program, where it is a mark
    of which there is one, or stands for the function that it decorates. Then it is sent with all that it has."""
    reduced = thing.__reduce_ex__(5)
    if isinstance(reduced, str):
        return reduced if _has_name(thing, reduced) else _reduce_mark(thing)
    return _plainly_reduced(thing) if _names_itself(thing, reduced) else reduced


def _reduce_mark(thing: Any) -> Any:
    return mark_of, (type(thing), cloudpickle._get_or_create_tracker_id(thing)), _state_of(thing), None, None, set_mark


def mark_of(kind: Any, tracker: str) -> Any:
    """Returns the object of this process that has this tracker, or a new one that has nothing yet."""
    known = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    return classes.tracked(tracker, object.__new__(kind)) if known is None else known


def set_mark(thing: Any, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Gives a new one its attributes. One that lives keeps its own."""
    for name, value in {**state[0], **state[1]}.items():
        if not hasattr(thing, name):
            object.__setattr__(thing, name, value)


def _names_itself(thing: Any, reduced: Any) -> bool:
    """Tells whether the function that a decorator has replaced is named in what is to be pickled of the decorator."""
    own = getattr(thing, "__dict__", {})
    module, name = own.get("__module__"), own.get("__qualname__", own.get("__name__"))
    if not isinstance(module, str) or not isinstance(name, str) or hasattr(thing, "__setstate__"):
        return False
    return any(isinstance(part, str) and name in part for part in reduced[1]) and not _has_name(thing, name)


def _plainly_reduced(thing: Any) -> Any:
    return copyreg.__newobj__, (type(thing),), _state_of(thing)  # type: ignore[attr-defined]


def _state_of(thing: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the attributes of an object, and those that are in slots."""
    slots = copyreg._slotnames(type(thing))  # type: ignore[attr-defined]
    return dict(getattr(thing, "__dict__", {})), {name: getattr(thing, name) for name in slots if hasattr(thing, name)}


def _reduce_new_type(thing: Any) -> Any:
    tracker = cloudpickle._get_or_create_tracker_id(thing)
    names = thing.__name__, thing.__qualname__, thing.__module__
    return _by_name(thing) or (new_type_of, (*names, thing.__supertype__, tracker))


def new_type_of(name: str, qualname: str, module: str, base: Any, tracker: str) -> Any:
    """Returns the `typing.NewType` of this process that has this tracker, or a new one."""
    make: Any = typing.NewType
    made = make(name, base)
    made.__qualname__, made.__module__ = qualname, module
    return classes.tracked(tracker, made)


_OF_PARAMETERS = "bound", "covariant", "contravariant", "infer_variance"


def _reduce_parameter(thing: Any) -> Any:
    """For `TypeVar`, `ParamSpec` and `TypeVarTuple`. The parameters of `def f[T]` and `class X[T]` have no name."""
    keywords = {name: getattr(thing, f"__{name}__") for name in _OF_PARAMETERS if getattr(thing, f"__{name}__", None)}
    if hasattr(thing, "has_default") and thing.has_default():
        keywords["default"] = thing.__default__
    names = thing.__name__, *getattr(thing, "__constraints__", ())
    tracker = cloudpickle._get_or_create_tracker_id(thing)
    return _by_name(thing) or (parameter_of, (type(thing), names, keywords, tracker))


def parameter_of(kind: Any, names: tuple[Any, ...], keywords: dict[str, Any], tracker: str) -> Any:
    """Returns the type parameter of this process that has this tracker, or a new one."""
    return classes.tracked(tracker, kind(*names, **keywords))


def _reduce_alias(thing: Any) -> Any:
    """For `type X = ...`, whose value may refer to X: then the value follows when the alias is made."""
    named = _by_name(thing)
    if named is not None:
        return named
    if thing.__type_params__ or not thing.__name__.isidentifier():
        return alias_of, (thing.__name__, thing.__module__, [thing.__value__], thing.__type_params__)
    holder: list[Any] = []
    return alias_of, (thing.__name__, thing.__module__, holder), (holder, thing.__value__), None, None, set_alias


def alias_of(name: str, module: str, holder: list[Any], parameters: tuple[Any, ...] | None = None) -> Any:
    """Returns a `typing.TypeAliasType` whose value is the one thing that is in the list, at once or soon."""
    namespace: dict[str, Any] = {"__name__": module, "holder": holder}
    if parameters is None:
        exec(f"type {name} = holder[0]", namespace)
        return namespace[name]
    namespace.update(kind=typing.TypeAliasType, parameters=parameters)  # type: ignore[attr-defined]
    return eval(f"kind({name!r}, holder[0], type_params=parameters)", namespace)


def set_alias(alias: Any, state: tuple[list[Any], Any]) -> None:
    state[0].append(state[1])


# ------------------------------------------------------------ what decorators and registries are made of


def _reduce_context_manager(manager: Any) -> Any:
    """For what `contextlib.contextmanager` makes, as a decorator keeps it: its generator has not begun."""
    if "func" not in vars(manager):
        raise TypeError(f"the context manager {manager.gen.__qualname__} has been entered, so it cannot be sent")
    return type(manager), (manager.func, manager.args, manager.kwds)


def _reduce_partial_method(method: Any) -> Any:
    """Returns how pickle writes a `functools.partialmethod`, which from Python 3.14 on is made with its function."""
    return partial_method_of, (type(method), method.func, method.args, method.keywords)


def partial_method_of(kind: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return kind(function, *arguments, **keywords)


def _reduce_reference(reference: Any) -> Any:
    found = reference()
    return (dead_reference, ()) if found is None else (type(reference), (found,))


def dead_reference() -> Any:
    """Returns a weak reference to nothing."""
    return weakref.ref(type("Gone", (), {})())


def _reduce_weak_mapping(mapping: Any) -> Any:
    return type(mapping), (), None, None, iter(list(mapping.items()))


REDUCERS: dict[type, Any] = {
    contextlib._GeneratorContextManager: _reduce_context_manager,
    contextlib._AsyncGeneratorContextManager: _reduce_context_manager,
    functools.partialmethod: _reduce_partial_method,
    typing.NewType: _reduce_new_type,
    typing.ParamSpec: _reduce_parameter,
    typing.TypeVar: _reduce_parameter,
    weakref.ReferenceType: _reduce_reference,
    weakref.WeakMethod: _reduce_reference,
    weakref.WeakKeyDictionary: _reduce_weak_mapping,
    weakref.WeakValueDictionary: _reduce_weak_mapping,
}
for _name, _reduce in (("TypeVarTuple", _reduce_parameter), ("TypeAliasType", _reduce_alias)):
    if hasattr(typing, _name):
        REDUCERS[getattr(typing, _name)] = _reduce
