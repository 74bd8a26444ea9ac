"""What the operator of a worker allows clients to bring."""

from __future__ import annotations

from scaler_protocol.records import dataclass

DEFAULT_CODE_BYTES = 2 << 30
DEFAULT_ENVIRONMENT_BYTES = 20 << 30

ALL, MODULES, NONE = "all", "modules", "none"
"""Modules and packages; modules only; neither."""


@dataclass(frozen=True, slots=True)
class CodeOptions:
    takes: str = ALL
    directory: str = ""  #: empty: one of this account, in the directory for temporary files
    code_bytes: int = DEFAULT_CODE_BYTES
    environment_bytes: int = DEFAULT_ENVIRONMENT_BYTES
    environment_seconds: float = 900.0  #: for installing one
