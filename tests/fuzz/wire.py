"""ZMTP 3.1 by hand, with the mechanism NULL, so that nothing keeps a hostile peer from what libzmq would not send."""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Iterable, Sequence

SAY_SECONDS = 1.0
"""So long a server may hold a sender back before the sender gives up: to hold it back is a good answer to a flood."""
_MORE, _LONG, _COMMAND = 1, 2, 4


def greeting(mechanism: bytes = b"NULL", minor: int = 1) -> bytes:
    return b"\xff" + bytes(8) + b"\x7f" + bytes([3, minor]) + mechanism.ljust(20, b"\0") + bytes(32)


def frame(body: bytes, more: bool = False, is_command: bool = False) -> bytes:
    flags = (_MORE if more else 0) | (_COMMAND if is_command else 0)
    if len(body) > 255:
        return bytes([flags | _LONG]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def message(frames: Sequence[bytes]) -> bytes:
    return b"".join(frame(bytes(body), more=at < len(frames) - 1) for at, body in enumerate(frames))


def known(name: bytes, value: bytes) -> bytes:
    """What a side tells of itself in its handshake."""
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def ready(kind: bytes, identity: bytes) -> bytes:
    body = b"\x05READY" + known(b"Socket-Type", kind)
    return frame(body + (known(b"Identity", identity) if identity else b""), is_command=True)


class Wire:
    """A connection that has greeted. What a full buffer has not taken of a message goes before the next one."""

    def __init__(self, port: int, kind: bytes = b"DEALER", *, receive_bytes: int = 0, is_greeting: bool = True) -> None:
        self._socket = socket.socket()
        if receive_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.settimeout(SAY_SECONDS)
        self._rest = b""
        self._read = b""
        self.is_closed = False
        try:
            self._socket.connect(("127.0.0.1", port))
        except OSError:
            self.close()
            return
        if is_greeting:
            identity = bytes([secrets.randbelow(255) + 1]) + secrets.token_bytes(15) if kind == b"DEALER" else b""
            self.say(greeting() + ready(kind, identity))
            # libzmq closes a connection that says more than its greeting before it has said its own.
            self._await_greeting()

    def _await_greeting(self) -> None:
        while len(self._read) < 64 and not self.is_closed:
            try:
                self._receive()
            except TimeoutError:
                self.close()
        self._read = self._read[64:]

    def say(self, data: bytes) -> bool:
        """False when the connection is closed, or takes no more."""
        if self.is_closed:
            return False
        rest = memoryview(self._rest + data)
        self._rest = b""
        try:
            while rest:
                rest = rest[self._socket.send(rest) :]
        except TimeoutError:
            self._rest = bytes(rest)
            return False
        except OSError:
            self.close()
            return False
        return True

    def packed(self, body: bytes, more: bool = False, is_command: bool = False) -> bytes:
        """A frame as this connection's mechanism writes it."""
        return frame(body, more, is_command)

    def send(self, *messages: Sequence[bytes]) -> bool:
        return self.say(
            b"".join(
                self.packed(bytes(body), more=at < len(frames) - 1)
                for frames in messages
                for at, body in enumerate(frames)
            )
        )

    def send_same(self, frames: Sequence[bytes], count: int) -> bool:
        return self.say(message(frames) * count)

    def received(self, seconds: float = 1.0) -> Iterable[list[bytes]]:
        """Messages, until none has come for so long."""
        if self.is_closed:
            return
        self._socket.settimeout(seconds)
        try:
            while True:
                parts: list[bytes] = []
                while True:
                    flags, body = self._frame()
                    if flags & _COMMAND:
                        continue
                    parts.append(body)
                    if not flags & _MORE:
                        break
                yield parts
        except (TimeoutError, ConnectionError):
            return
        finally:
            if not self.is_closed:
                self._socket.settimeout(SAY_SECONDS)

    def _frame(self) -> tuple[int, bytes]:
        self._need(2)
        flags = self._read[0]
        head, size = (9, 0) if flags & _LONG else (2, self._read[1])
        self._need(head)
        if flags & _LONG:
            (size,) = struct.unpack(">Q", self._read[1:9])
        self._need(head + size)
        body = self._read[head : head + size]
        self._read = self._read[head + size :]
        return flags, body

    def _need(self, size: int) -> None:
        while len(self._read) < size:
            if not self._receive():
                raise ConnectionError

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._read += data
        return True

    def drop_what_came(self) -> None:
        """Read and forget it, without waiting."""
        if self.is_closed:
            return
        self._read = b""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(1 << 20):
                pass
            self.close()
        except BlockingIOError:
            self._socket.settimeout(SAY_SECONDS)
        except OSError:
            self.close()

    def close(self) -> None:
        self.is_closed = True
        self._socket.close()

    def reset(self) -> None:
        """End the connection without a goodbye: what it has sent and the server has not read is gone."""
        if not self.is_closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
