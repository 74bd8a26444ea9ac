"""`dataclass(slots=True)`, frozen or not, of which `__init__` and `__eq__` are compiled when they are first called.

The standard one compiles six methods for each class when its module is imported, a third of a millisecond to one in
all. There are some three hundred records, and no process uses half of them: that was a third of what it took to start a
cluster. Here fields and slots are there at once, `__hash__` and `__repr__` need no code of their own, and what a frozen
record is made of goes through its slots, which takes two thirds of the time that the standard `__init__` takes.

Not for classes that users make or inspect: until it is first called, `__init__` has no names of arguments to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    def complete(*classes: type) -> None: ...
else:
    import dataclasses
    import reprlib
    from operator import attrgetter

    def dataclass(*, slots, frozen=False, eq=True):
        assert slots, "a class without slots wants the standard dataclass"
        return lambda cls: _record(cls, frozen, eq)

    def complete(*classes):
        """Now: in a process that is about to be forked, so that not each of its children compiles."""
        for cls in classes:
            for name, compiled in _COMPILED.items():
                if getattr(cls.__dict__.get(name), "is_late", False):
                    setattr(cls, name, compiled(cls))

    def _record(cls, frozen, eq):
        cls.__doc__ = cls.__doc__ or cls.__name__  # else `inspect` is asked for a signature
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        made.__init__ = _late(made, "__init__")
        if "__repr__" not in cls.__dict__:
            made.__repr__ = _repr
        if eq:
            made.__eq__ = _late(made, "__eq__")
            made.__hash__ = _hash_of(made) if frozen else None
        if frozen:
            made.__setattr__ = made.__delattr__ = _refuse
            made.__getstate__, made.__setstate__ = _state, _restore
        return made

    def _late(cls, name):
        def method(self, *arguments, **keywords):
            compiled = _COMPILED[name](cls)
            setattr(cls, name, compiled)
            return compiled(self, *arguments, **keywords)

        method.is_late = True
        return method

    def _compiled_init(cls):
        """A frozen record refuses `self.x = x`, so its slots are set by their descriptors."""
        known, arguments, lines = {"_MISSING": dataclasses.MISSING}, ["self"], []
        is_frozen = cls.__setattr__ is _refuse
        for field in dataclasses.fields(cls):
            name, value = field.name, field.name
            assert field.compare and field.hash is None and not field.kw_only, f"{name}: records have no such fields"
            if field.default is not dataclasses.MISSING:
                known[f"_default_{name}"] = field.default
                argument, otherwise = f"{name}=_default_{name}", f"_default_{name}"
            elif field.default_factory is not dataclasses.MISSING:
                known[f"_factory_{name}"] = field.default_factory
                argument, otherwise = f"{name}=_MISSING", f"_factory_{name}()"
                value = f"{otherwise} if {name} is _MISSING else {name}"
            else:
                argument, otherwise = name, ""
            if field.init:
                arguments.append(argument)
            else:
                value = otherwise
            if value:
                known[f"_set_{name}"] = getattr(cls, name).__set__
                lines.append(f"_set_{name}(self, {value})" if is_frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        return _compiled(cls, "__init__", ", ".join(arguments), lines or ["pass"], known)

    def _compiled_eq(cls):
        ours, theirs = (
            "".join(f"{one}.{field.name}, " for field in dataclasses.fields(cls)) for one in ("self", "other")
        )
        lines = ["if other.__class__ is self.__class__:", f" return ({ours}) == ({theirs})", "return NotImplemented"]
        return _compiled(cls, "__eq__", "self, other", lines, {})

    _COMPILED = {"__init__": _compiled_init, "__eq__": _compiled_eq}

    def _compiled(cls, name, arguments, lines, known):
        """`known` are the globals of the method, whose names no argument has."""
        known["__name__"] = cls.__module__
        exec(f"def {name}({arguments}):\n" + "\n".join(f" {line}" for line in lines), known)
        method = known.pop(name)
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        return method

    def _hash_of(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        if len(names) < 2:
            return lambda self: hash(tuple([getattr(self, name) for name in names]))
        values = attrgetter(*names)
        return lambda self: hash(values(self))

    @reprlib.recursive_repr()
    def _repr(self):
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _refuse(self, name, *_value):
        raise dataclasses.FrozenInstanceError(f"{name!r} of a {type(self).__name__} cannot be changed")

    def _state(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self, state):
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
