"""A connection of the local lane of which every byte is the test's."""

from __future__ import annotations

import socket

from scaler_protocol.codec import decode
from scaler_protocol.messages import Limits, Message
from scaler_protocol.transport.framing import Assembler, header
from tests.support.endpoints import Bench


def name_of(address: str) -> str:
    return f"\0scaler/1/{address.removeprefix('tcp://')}"


class Raw:
    """A connection that says what it likes."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(name_of(address))
        self.socket.setblocking(False)
        self._assembler = Assembler(Limits())

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(header(frames) + b"".join(frames))

    def answer(self, bench: Bench) -> Message:
        found: list[Message] = []

        def is_answered() -> bool:
            try:
                parts = self._assembler.feed(self.socket.recv(65_536))
            except BlockingIOError:
                return False
            assert parts, "an answer, and not the end"
            found.extend(decode(envelope or b"", payload).message for envelope, payload, _, _ in parts)
            return True

        bench.until(is_answered, "an answer for the raw peer")
        return found[0]

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(65_536) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True


def push(bench: Bench, raw: Raw, data: bytes) -> None:
    left = memoryview(data)

    def is_sent() -> bool:
        nonlocal left
        try:
            left = left[raw.socket.send(left) :]
        except BlockingIOError:
            pass
        return not left

    bench.until(is_sent, "the raw peer to have sent everything")
