"""What goes wrong with keys. Each text names the file, says what to do, and quotes no secret."""

from __future__ import annotations

from scaler_protocol.errors import ScalerError


class KeyFileError(ScalerError):
    """A key or ticket was named or found, and cannot be used. There is never a fallback to another one. (SEC-7)"""


class NoKeyFound(KeyFileError):
    """No place where a key is looked for has one."""


class NoServerFound(NoKeyFound, TimeoutError):
    """There is no key for this address of this machine, and no server either that would have left one."""
