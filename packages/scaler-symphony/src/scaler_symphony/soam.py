"""Symphony's own Python library: finding it, and saying what is missing when it is not there.

It comes with Symphony, not from a package index: compiled files for some versions of Python, one directory for each,
beside shared libraries. Each of these can be missing, and each wants another remedy.
"""

from __future__ import annotations

import importlib
import sys
from array import array
from typing import Any

from scaler_protocol.process import StartupError

_SOURCE = "it comes with IBM Spectrum Symphony and is in no package index"


def import_soamapi() -> Any:
    """The module. Raises StartupError."""
    try:
        importlib.import_module("soamapiversion")  # puts the directory of this version of Python into sys.path
    except ModuleNotFoundError:
        pass  # older releases have none; then the directory is in PYTHONPATH
    except ImportError as error:
        raise StartupError(_reason(error)) from None
    try:
        return importlib.import_module("soamapi")
    except ImportError as error:
        raise StartupError(_reason(error)) from None


def _reason(error: ImportError) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if isinstance(error, ModuleNotFoundError) and error.name == "soamapi":
        return (
            f"there is no module soamapi: {_SOURCE}; "
            f"run Symphony's profile.platform, or put its directory for Python {version} into PYTHONPATH"
        )
    if "bad magic number" in str(error):
        return (
            f"soamapi is not made for Python {version}: {_SOURCE}, with files for some versions of Python only; "
            f"use one that your release supports, such as 3.10 or 3.12 ({error})"
        )
    if "shared object file" in str(error):
        return (
            f"soamapi does not find a library of Symphony's: run its profile.platform, or put its lib directory into "
            f"LD_LIBRARY_PATH ({error})"
        )
    return f"soamapi cannot be imported: {type(error).__name__}: {error}"


def payload_class(soamapi: Any) -> Any:
    """A message of nothing but bytes, as both sides know it."""

    class Payload(soamapi.Message):  # type: ignore[misc]
        def __init__(self, content: bytes = b"") -> None:
            super().__init__()
            self.content = content

        def on_serialize(self, stream: Any) -> None:
            content = array("b", self.content)
            stream.write_byte_array(content, 0, len(content))

        def on_deserialize(self, stream: Any) -> None:
            self.content = stream.read_byte_array("b").tobytes()

    return Payload


def describe(exception: Any) -> str:
    """What a SoamException says, for people. It may be None, and what a service raised may be inside, or not."""
    if exception is None:
        return "Symphony gives no reason"
    embedded = exception.get_embedded_exception() if hasattr(exception, "get_embedded_exception") else None
    text = _one_line(exception)
    if embedded is None:
        return text or "Symphony gives no reason"
    inside = f"{type(embedded).__name__}: {_one_line(embedded)}"
    return f"{text}: {inside}" if text else inside


def _one_line(error: Any) -> str:
    try:
        return " ".join(str(error).split())[:1000]
    except Exception as failure:  # noqa: BLE001 - it may be an exception of users, with a __str__ of theirs
        return f"<str() of {type(error).__name__} raised {type(failure).__name__}>"
