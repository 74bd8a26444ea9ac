"""What an operator has every new processor call before its first task: `module.sub:function(arguments)`."""

from __future__ import annotations

import ast
import importlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_FORM = "module.sub:function or module.sub:function(arguments)"
_SPEC = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<function>\w+)\s*(?P<arguments>\(.*\))?", re.DOTALL)


class PreloadSpecError(ValueError):
    """The specification is not of the right form, or names nothing that could be called."""


@dataclass(frozen=True, slots=True)
class Preload:
    module: str
    function: str
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()


def parse_preload(text: str) -> Preload:
    """Arguments are literals, by place or by name."""
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise PreloadSpecError(f"{text!r} is not of the form {_FORM}")
    try:
        call = ast.parse(f"function{match['arguments'] or '()'}", mode="eval").body
        assert isinstance(call, ast.Call)
        arguments = tuple(ast.literal_eval(argument) for argument in call.args)
        keywords = tuple((one.arg or "", ast.literal_eval(one.value)) for one in call.keywords)
    except (SyntaxError, ValueError, AssertionError):
        raise PreloadSpecError(f"the arguments in {text!r} are not literals; the form is {_FORM}") from None
    if any(not name for name, _ in keywords):
        raise PreloadSpecError(f"{text!r} has ** among its arguments; the form is {_FORM}")
    return Preload(match["module"], match["function"], arguments, keywords)


def execute_preload(text: str) -> Any:
    """Import the module and call the function; what it returns."""
    preload = parse_preload(text)
    target = _target(preload)
    logging.getLogger("scaler.worker").info(
        "preloading: %s:%s with args %r and kwargs %r",
        preload.module, preload.function, preload.arguments, dict(preload.keywords),
    )  # fmt: skip
    return target(*preload.arguments, **dict(preload.keywords))


def _target(preload: Preload) -> Callable[..., Any]:
    name = f"{preload.module}:{preload.function}"
    try:
        target = getattr(importlib.import_module(preload.module), preload.function)
    except (ImportError, AttributeError) as error:
        raise PreloadSpecError(f"{name} cannot be found: {error}; the form is {_FORM}") from error
    if not callable(target):
        raise PreloadSpecError(f"{name} is not callable: it is a {type(target).__name__}; the form is {_FORM}")
    found: Callable[..., Any] = target
    return found
