"""ZMTP 3.1 with CURVE by hand, by the libsodium that pyzmq brings: what libzmq would not send, behind its handshake.

The handshake needs the servers' public key and any pair of its own. A ticket is shown later, in a Hello, or never.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import secrets
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import zmq

from tests.fuzz.wire import Wire, frame, greeting, known

_TAG_BYTES = 16
_MORE, _COMMAND = 1, 2


@cache
def _sodium() -> ctypes.CDLL:
    """Raises LookupError where pyzmq brings none, and the system has none."""
    brought = sorted(Path(zmq.__file__).parent.parent.glob("pyzmq.libs/libsodium*.so*"))
    found = str(brought[0]) if brought else ctypes.util.find_library("sodium")
    if found is None:
        raise LookupError("no libsodium")
    return ctypes.CDLL(found)


def is_possible() -> bool:
    try:
        _sodium()
    except LookupError:
        return False
    return True


def pair() -> tuple[bytes, bytes]:
    """Returns a new public and secret key."""
    public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    _sodium().crypto_box_keypair(public, secret)
    return public.raw, secret.raw


def _box(text: bytes, nonce: bytes, public: bytes, secret: bytes) -> bytes:
    made = ctypes.create_string_buffer(len(text) + _TAG_BYTES)
    assert not _sodium().crypto_box_easy(made, text, ctypes.c_ulonglong(len(text)), nonce, public, secret)
    return made.raw


def _opened(box: bytes, nonce: bytes, public: bytes, secret: bytes) -> bytes:
    """Raises ConnectionError if the box is of other keys."""
    text = ctypes.create_string_buffer(max(len(box) - _TAG_BYTES, 1))
    if _sodium().crypto_box_open_easy(text, box, ctypes.c_ulonglong(len(box)), nonce, public, secret):
        raise ConnectionError("the server has another key")
    return text.raw[: len(box) - _TAG_BYTES]


class SealedWire(Wire):
    """The interface is that of `Wire`. `is_closed`: the server has not gone through the handshake."""

    def __init__(self, port: int, server: bytes, own: tuple[bytes, bytes] | None = None) -> None:
        super().__init__(port, is_greeting=False)
        self._short_public, self._short_secret = pair()
        self._count = 0
        if not self.is_closed:
            try:
                self._shake_hands(server, *(own or pair()))
            except (OSError, ConnectionError):  # TimeoutError among them
                self.close()

    def _shake_hands(self, server: bytes, public: bytes, secret: bytes) -> None:
        self.say(greeting(b"CURVE"))
        self._await_greeting()
        counted, nonce = self._nonce(b"CurveZMQHELLO---")
        hello = _box(bytes(64), nonce, server, self._short_secret)
        self.say(frame(b"\x05HELLO\1\0" + bytes(72) + self._short_public + counted + hello, is_command=True))
        _, welcome = self._frame()
        if not welcome.startswith(b"\x07WELCOME"):
            raise ConnectionError(welcome)
        opened = _opened(welcome[24:], b"WELCOME-" + welcome[8:24], server, self._short_secret)
        self._server, cookie = opened[:32], opened[32:]
        long_nonce = secrets.token_bytes(16)
        vouch = _box(self._short_public + server, b"VOUCH---" + long_nonce, self._server, secret)
        metadata = known(b"Socket-Type", b"DEALER") + known(b"Identity", b"\1" + secrets.token_bytes(15))
        counted, nonce = self._nonce(b"CurveZMQINITIATE")
        initiate = _box(public + long_nonce + vouch + metadata, nonce, self._server, self._short_secret)
        self.say(frame(b"\x08INITIATE" + cookie + counted + initiate, is_command=True))
        self._shared = ctypes.create_string_buffer(32)
        _sodium().crypto_box_beforenm(self._shared, self._server, self._short_secret)
        _, ready = self._frame()
        if not ready.startswith(b"\x05READY"):
            raise ConnectionError(ready)

    def _nonce(self, head: bytes) -> tuple[bytes, bytes]:
        self._count += 1
        counted = struct.pack(">Q", self._count)
        return counted, head + counted

    def packed(self, body: bytes, more: bool = False, is_command: bool = False) -> bytes:
        counted, nonce = self._nonce(b"CurveZMQMESSAGEC")
        text = bytes([(_MORE if more else 0) | (_COMMAND if is_command else 0)]) + body
        box = ctypes.create_string_buffer(len(text) + _TAG_BYTES)
        _sodium().crypto_box_easy_afternm(box, text, ctypes.c_ulonglong(len(text)), nonce, self._shared)
        return frame(b"\x07MESSAGE" + counted + box.raw)

    def send_same(self, frames: Sequence[bytes], count: int) -> bool:
        return self.send(*[frames] * count)
