"""Whether a call fits its function, judged in the line that submits it, and only where that is certain.

Certain are plain Python functions, their partials, and plain methods of plain objects. A decorated function may take
other arguments than it shows, and a builtin or a callable object may take what it likes: those are judged where they
run. Futures and references among the arguments count as the values they stand for.

This is on the way of every call, so a function that has as many parameters as there are arguments is passed with a few
comparisons and without any other call. Only what does not fit is looked at by `inspect`, which words the error.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NOT_SIMPLE = _VARIADIC | _ASYNC
_PLACEHOLDER = getattr(functools, "Placeholder", object())
_REMEMBERED = 1024

OPTIONS = frozenset(("capabilities", "lost_processors_limit", "priority", "reserialize", "retries", "timeout"))
"""Of `submit_verbose`. Other libraries take some of them among the arguments of a call."""
_NOTHING: Mapping[str, Any] = {}


def check_call(function: Callable[..., Any], count: int, keywords: Mapping[str, Any] = _NOTHING) -> None:
    """TypeError if `function` cannot be called with so many positional arguments and these keywords, or is async."""
    kind = type(function)
    if kind is BuiltinFunctionType:
        return
    if kind is FunctionType and not keywords:
        code = function.__code__
        if not (code.co_kwonlyargcount or code.co_flags & _NOT_SIMPLE):
            spare = code.co_argcount - count
            if not spare or 0 < spare <= len(function.__defaults__ or ()):
                return
    if not fits(function, count, keywords):
        raise _misfit(function, count, keywords)


def check_calls(functions: Iterable[Callable[..., Any]], counts: Iterable[int]) -> None:
    """The same for many calls with positional arguments only; each kind of them is looked at once."""
    kinds = {(id(function), count): function for function, count in zip(functions, counts, strict=True)}
    for (_, count), function in kinds.items():
        check_call(function, count)


def fits(function: Callable[..., Any], count: int, keywords: Mapping[str, Any] = _NOTHING) -> bool:
    """False if it is certain that the call cannot be made, and its result not be had."""
    if type(function) is functools.partial:
        if any(argument is _PLACEHOLDER for argument in function.args):
            return True
        return fits(function.func, len(function.args) + count, {**function.keywords, **keywords})
    if type(function) is MethodType and _is_plain_object(function.__self__):
        return fits(function.__func__, count + 1, keywords)
    if type(function) is not FunctionType:
        return True
    if function.__code__.co_flags & _ASYNC:
        return False
    return "__wrapped__" in vars(function) or "__signature__" in vars(function) or _binds(function, count, keywords)


def _is_plain_object(owner: Any) -> bool:
    """What arrives at the worker is of the same class."""
    kind: Any = type(owner)
    plain: Any = object
    return kind.__reduce_ex__ is plain.__reduce_ex__ and kind.__reduce__ is plain.__reduce__


_fitting: dict[tuple[Any, ...], CodeType] = {}
"""The shapes of calls that were found to fit, by the id of the function's code, which is kept so that its id stays its
own. A code object as a key would be hashed by all that is in it."""


def _binds(function: FunctionType, count: int, keywords: Mapping[str, Any]) -> bool:
    code, defaults, with_default = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or ()
    shape = (id(code), count, len(defaults), len(with_default), *keywords)
    if _fitting.get(shape) is code:
        return True
    if not _shape_binds(code, len(defaults), frozenset(with_default), count, tuple(keywords)):
        return False
    if len(_fitting) >= _REMEMBERED:
        _fitting.clear()
    _fitting[shape] = code
    return True


def _shape_binds(
    code: CodeType, defaults: int, with_default: frozenset[str], count: int, keywords: tuple[str, ...]
) -> bool:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional, only_by_name = names[: code.co_argcount], names[code.co_argcount :]
    if count > len(positional) and not code.co_flags & inspect.CO_VARARGS:
        return False
    given, by_name = set(positional[:count]), set(names[code.co_posonlyargcount :])
    if given & by_name & set(keywords):
        return False
    if not (code.co_flags & inspect.CO_VARKEYWORDS or by_name.issuperset(keywords)):
        return False
    given |= by_name & set(keywords)
    needed = {*positional[: len(positional) - defaults], *only_by_name} - with_default
    return needed <= given


def _misfit(function: Any, count: int, keywords: Mapping[str, Any]) -> TypeError:
    plain = function
    while isinstance(plain, functools.partial | MethodType):
        plain = plain.func if isinstance(plain, functools.partial) else plain.__func__
    name = plain.__qualname__
    if plain.__code__.co_flags & _ASYNC:
        return TypeError(
            f"{name} is an async function, and a task has no event loop to run it in: "
            "submit a function that calls asyncio.run()"
        )
    try:
        signature = inspect.signature(function)
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError as error:
        options = " and ".join(sorted(OPTIONS.intersection(keywords).difference(signature.parameters)))
        hint = f"; to give {options} to the task, use submit_verbose(fn, args, kwargs, ...)" if options else ""
        return TypeError(f"{name}{signature} cannot be called like this: {error}{hint}")
    except ValueError:  # a method without a place for its object, or a partial that does not fit by itself
        pass
    return TypeError(f"{name} cannot be called with {count} positional arguments and the keywords {list(keywords)}")


def check_options(method: str, function: Any, others: Mapping[str, Any]) -> None:
    """Raises TypeError for keywords that are no options of `map`, `starmap` or `imap`: other libraries pass them on."""
    if others:
        name = getattr(function, "__name__", "function")
        unknown, same = " and no option ".join(map(repr, others)), ", ".join(f"{keyword}=..." for keyword in others)
        raise TypeError(
            f"{method}() has no option {unknown}; to give the same value to each call, "
            f"write client.{method}(functools.partial({name}, {same}), ...)"
        )


def seems_to_fit(function: Callable[..., Any], count: int) -> bool | None:
    """Tells whether a call with so many arguments fits, by what the function says of its parameters: good enough to
    choose between two calls, and not to refuse one. None: it says nothing."""
    if type(function) is FunctionType and not vars(function).keys() & {"__wrapped__", "__signature__"}:
        return fits(function, count)
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        required = _required_in_text(function)
        return count >= required if required > 1 else None
    return True


_CALL_IN_TEXT = re.compile(r"[\w.]+\(([^)=*.\[]*)")


def _required_in_text(function: Any) -> int:
    """Returns how many arguments a function that is written in C needs by the first line of its text, such as
    `getattr(object, name[, default])`. Returns 0 if the text does not say it."""
    is_in_c = isinstance(function, BuiltinFunctionType | MethodDescriptorType | type)
    found = _CALL_IN_TEXT.match(function.__doc__ or "") if is_in_c else None
    return 0 if found is None else len([name for name in found[1].split(",") if name.strip(" /")])


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether it has a parameter of this name."""
    try:
        return _declares(function, name)
    except TypeError:  # not hashable
        return _declares.__wrapped__(function, name)


@functools.lru_cache(maxsize=256)
def _declares(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):  # builtins without a signature
        return False
