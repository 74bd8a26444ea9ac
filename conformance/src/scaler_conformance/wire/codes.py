"""Numbers with names, from `constants.capnp`, in the words of the specification: BAD_BATCH, not badBatch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace

from .schema import load

#: How the names of a group begin whose numbers mean something among themselves; what is in none is an error's code.
_GROUPS = (
    "ROLE_", "CALL_", "KIND_", "STATUS_", "FLAG_", "UNIT_", "TASK_UNWANTED", "CANCEL_", "STACK_", "OBJECT_", "CONTROL_",
)  # fmt: skip


class Named(int):
    """A constant, shown by its name; `name_of` has those of the other numbers of its group."""

    group: Mapping[int, str]

    def __str__(self) -> str:
        return self.name_of(self)

    def name_of(self, number: int) -> str:
        return self.group.get(number, int.__repr__(number))


def _upper(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


_VALUES: dict[str, int] = {_upper(name): value for name, value in vars(load("constants")).items() if type(value) is int}


def _group_of(name: str) -> str:
    return next((group for group in _GROUPS if name.startswith(group)), "")


def _names_of(group: str) -> dict[int, str]:
    """A number that has several is called by all of them: parts and values share KIND_, up to their third."""
    names: dict[int, str] = {}
    for name, value in _VALUES.items():
        if _group_of(name) == group:
            short = name.removeprefix(group) or name
            names[value] = f"{names[value]} or {short}" if value in names else short
    return names


def _named(name: str, value: int) -> Named:
    constant = Named(value)
    constant.group = _BY_GROUP[_group_of(name)]
    return constant


_BY_GROUP = {group: _names_of(group) for group in ("", *_GROUPS)}

#: CODES.BAD_BATCH and all other constants: CODES.STATUS_FAILED, CODES.KIND_INLINE, …
CODES = SimpleNamespace(**{name: _named(name, value) for name, value in _VALUES.items()})
ROLES = {name.lower(): value for value, name in _BY_GROUP["ROLE_"].items()}
STATUSES = _BY_GROUP["STATUS_"]
OUTCOMES = _BY_GROUP["CANCEL_"]


def code_name(code: int) -> str:
    return _BY_GROUP[""].get(code, str(code))
