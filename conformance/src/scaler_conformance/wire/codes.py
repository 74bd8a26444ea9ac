"""Numbers with names, from `constants.capnp`, in the words of the specification: BAD_BATCH, not badBatch."""

from __future__ import annotations

import re
from types import SimpleNamespace

from .schema import load


def _upper(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


_VALUES: dict[str, int] = {
    _upper(name): getattr(load("constants"), name) for name in dir(load("constants")) if not name.startswith("_")
}

_GROUPS = ("ROLE_", "CALL_", "KIND_", "STATUS_", "FLAG_", "TASK_UNWANTED", "CANCEL_")
_ERRORS = {name: value for name, value in _VALUES.items() if not name.startswith(_GROUPS) and type(value) is int}
_NAMES = {value: name for name, value in _ERRORS.items()}

#: CODES.BAD_BATCH and all other constants: CODES.STATUS_FAILED, CODES.KIND_INLINE, …
CODES = SimpleNamespace(**_VALUES)
ROLES = {name.removeprefix("ROLE_").lower(): value for name, value in _VALUES.items() if name.startswith("ROLE_")}
STATUSES = {value: name.removeprefix("STATUS_") for name, value in _VALUES.items() if name.startswith("STATUS_")}
OUTCOMES = {value: name.removeprefix("CANCEL_") for name, value in _VALUES.items() if name.startswith("CANCEL_")}


def code_name(code: int) -> str:
    return _NAMES.get(code, str(code))
