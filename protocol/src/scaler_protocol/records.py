"""`dataclass(slots=True)`, frozen or not, of which most is made when it is first needed.

The standard one compiles six methods for each class when its module is imported, half a millisecond in all. There are a
hundred records, and no process uses half of them: together they were a quarter of what a program took to start. Here
fields and slots are there at once. The methods are those of the standard library, made at the first call of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    def complete(*classes: type) -> None: ...
else:
    import dataclasses

    def dataclass(*, slots, frozen=False):
        assert slots, "who has no slots wants the standard dataclass"
        return lambda cls: _record(cls, frozen)

    def complete(*classes):
        """Now: in a process that is about to be forked, so that not each of its children compiles."""
        for cls in classes:
            cls.__eq__(object.__new__(cls), None)

    def _record(cls, frozen):
        cls.__doc__ = cls.__doc__ or cls.__name__  # else `inspect` is asked for a signature
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        late = ["__init__", "__repr__", "__eq__"]
        if frozen:
            late.append("__hash__")
            made.__setattr__ = made.__delattr__ = _refuse
            made.__getstate__, made.__setstate__ = _state, _restore
        else:
            made.__hash__ = None
        for name in late:
            setattr(made, name, _late(made, name, late))
        return made

    def _late(cls, name, names):
        def method(self, *arguments, **keywords):
            _complete(cls, names)
            return getattr(cls, name)(self, *arguments, **keywords)

        return method

    def _complete(cls, names):
        """With the methods of another class that has the same fields."""
        fields = [
            (
                field.name,
                field.type,
                dataclasses.field(default=field.default, default_factory=field.default_factory, repr=field.repr),
            )
            for field in dataclasses.fields(cls)
        ]
        whole = dataclasses.make_dataclass(cls.__name__, fields, frozen="__hash__" in names)
        for name in names:
            setattr(cls, name, getattr(whole, name))

    def _refuse(self, name, *_value):
        raise dataclasses.FrozenInstanceError(f"{name!r} of a {type(self).__name__} cannot be changed")

    def _state(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self, state):
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
