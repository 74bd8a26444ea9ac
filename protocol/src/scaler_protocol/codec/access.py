"""How fields of Cap'n Proto structs are read and written through pycapnp.

Plain attribute access costs 0.8 µs a field, because a normal lookup has to fail first. pycapnp's own underscore methods
cost 0.12 µs. They are not its API, so there is a second way that uses attributes only, chosen when a release of pycapnp
lacks them; `test_codec_access.py` fails in that case, so that the loss of speed is noticed.

Readers and builders never leave the codec: `repr()` of a reader over malformed bytes aborts the process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

Handle = Any
"""What names a field: a schema field, or the field's name."""
Reader = Any
Builder = Any


class Access(Protocol):
    """One way to reach fields. The three bound functions are made once per struct that is read or written."""

    def handle(self, schema: Any, name: str) -> Handle: ...
    def getter(self, struct: Reader) -> Callable[[Handle], Any]: ...
    def setter(self, builder: Builder) -> Callable[[Handle, Any], None]: ...
    def initializer(self, builder: Builder) -> Callable[..., Any]: ...
    def member(self, union: Reader) -> str: ...


class FieldAccess:
    """By schema fields that were looked up once, through the underscore methods."""

    METHODS = ("_get_by_field", "_set_by_field", "_init_by_field", "_which_str")

    def handle(self, schema: Any, name: str) -> Handle:
        return schema.fields[name]

    def getter(self, struct: Reader) -> Callable[[Handle], Any]:
        getter: Callable[[Handle], Any] = struct._get_by_field
        return getter

    def setter(self, builder: Builder) -> Callable[[Handle, Any], None]:
        setter: Callable[[Handle, Any], None] = builder._set_by_field
        return setter

    def initializer(self, builder: Builder) -> Callable[..., Any]:
        initializer: Callable[..., Any] = builder._init_by_field
        return initializer

    def member(self, union: Reader) -> str:
        name: str = union._which_str()
        return name


class AttributeAccess:
    """By attribute names: slower, and nothing but pycapnp's documented API."""

    def handle(self, schema: Any, name: str) -> Handle:
        return name

    def getter(self, struct: Reader) -> Callable[[Handle], Any]:
        return partial(getattr, struct)

    def setter(self, builder: Builder) -> Callable[[Handle, Any], None]:
        return partial(setattr, builder)

    def initializer(self, builder: Builder) -> Callable[..., Any]:
        initializer: Callable[..., Any] = builder.init
        return initializer

    def member(self, union: Reader) -> str:
        return str(union.which())


def choose(builder: Builder) -> Access:
    """The fast way where this pycapnp has it."""
    has_methods = all(hasattr(builder, name) for name in FieldAccess.METHODS)
    return FieldAccess() if has_methods else AttributeAccess()
