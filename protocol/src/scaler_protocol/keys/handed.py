"""Keys that a parent has handed to this process by a descriptor, named `fd:7`: not in a file, and neither in the
arguments nor in the environment, which other programs can see. (SEC-15)"""

from __future__ import annotations

import os

from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import read_descriptor
from scaler_protocol.keys.texts import TEXT_BYTES_MAX

PREFIX = "fd:"

#: A pipe can be read once, and its key is asked for by each connection of this process and of those forked from it.
_read: dict[str, bytes] = {}


def is_handed(name: str) -> bool:
    return name.startswith(PREFIX)


def read_handed(name: str) -> bytes:
    if name not in _read:
        number = name.removeprefix(PREFIX)
        if not (number.isascii() and number.isdigit() and len(number) < 7):
            raise KeyFileError(f"{name} names no descriptor: write a file, or {PREFIX} and a number")
        try:
            _read[name] = read_descriptor(int(number))
        except OSError as error:
            raise KeyFileError(f"the key in descriptor {number} cannot be read: {error.strerror}") from None
    return _read[name]


def forget_handed(name: str) -> None:
    """Forgets a key, before this process runs code of users. What was made of it stays."""
    _read.pop(name, None)


def hand(content: bytes) -> int:
    """The read end of a pipe with this content. One child inherits it; we close it once the child is started."""
    assert len(content) <= TEXT_BYTES_MAX  # every pipe holds that much, so the write below never blocks
    reader, writer = os.pipe()
    _read.pop(f"{PREFIX}{reader}", None)  # of an earlier descriptor with this number
    try:
        os.write(writer, content)
    finally:
        os.close(writer)
    return reader
