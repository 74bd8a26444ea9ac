"""Functions made of functions: how a node of a graph that is more than one call becomes a single task.

A client takes such a node apart into its leaves (values, and the results of other nodes), which are the arguments of
the task, and an `Expression` over them, which is its function. Nodes of one form share one Expression, so it travels
once. Workers import this module when they read such a function; it imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Form = int | tuple[Any, ...]
"""The number of a leaf, or a callable followed by the forms of its arguments."""


class Expression:
    """Calls whose arguments are leaves, or further calls."""

    __slots__ = ("form",)

    def __init__(self, form: tuple[Any, ...]) -> None:
        self.form = form

    def __call__(self, *leaves: Any) -> Any:
        return _value(self.form, leaves)

    def __reduce__(self) -> tuple[type[Expression], tuple[Form]]:
        return Expression, (self.form,)

    def __repr__(self) -> str:
        return f"Expression({self.form!r})"


def _value(form: Form, leaves: tuple[Any, ...]) -> Any:
    if type(form) is int:
        return leaves[form]
    assert type(form) is tuple, "a form is a number or a tuple"
    return form[0](*[_value(one, leaves) for one in form[1:]])


class Keyworded:
    """A function whose last arguments are passed by name."""

    __slots__ = ("function", "names")

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...]) -> None:
        self.function = function
        self.names = names

    def __call__(self, *values: Any) -> Any:
        split = len(values) - len(self.names)
        return self.function(*values[:split], **dict(zip(self.names, values[split:], strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyworded) and (other.function, other.names) == (self.function, self.names)

    def __hash__(self) -> int:
        return hash((self.function, self.names))

    def __reduce__(self) -> tuple[type[Keyworded], tuple[Any, ...]]:
        return Keyworded, (self.function, self.names)

    def __repr__(self) -> str:
        return f"Keyworded({self.function!r}, {self.names!r})"


def as_list(*items: Any) -> list[Any]:
    return list(items)


def as_tuple(*items: Any) -> tuple[Any, ...]:
    return items


def as_set(*items: Any) -> set[Any]:
    return set(items)


def as_frozenset(*items: Any) -> frozenset[Any]:
    return frozenset(items)


def as_dict(*items: Any) -> dict[Any, Any]:
    """Keys and values in turn."""
    return dict(zip(items[::2], items[1::2], strict=True))


def of_values(node: Callable[[dict[Any, Any]], Any], keys: tuple[Any, ...], *values: Any) -> Any:
    """For nodes that find what they depend on in a dict, as Dask's do."""
    return node(dict(zip(keys, values, strict=True)))
