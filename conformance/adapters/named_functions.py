"""The functions by name of `ports/ADAPTER.md`, for Python's workers: `scaler_cluster --functions` takes this module.

Arguments and results are bytes; numbers in them are decimal text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from scaler import Client
from scaler_protocol.running.streaming import run
from scaler_protocol.streams import StreamId

__all__ = [
    "add", "bytes_n", "concat", "crash", "echo", "fail", "hold_mib", "print_text", "read_object", "reverse", "sleep_ms",
    "spin_ms", "stream_n", "submit_child",
]  # fmt: skip


class Failure(Exception):
    """What `fail` raises."""


def echo(value: bytes) -> bytes:
    return value


def concat(*values: bytes) -> bytes:
    return b"".join(values)


def reverse(value: bytes) -> bytes:
    return value[::-1]


def add(*numbers: bytes) -> bytes:
    return b"%d" % sum(map(int, numbers))


def fail(message: bytes = b"asked to fail") -> bytes:
    raise Failure(message.decode(errors="replace"))


def sleep_ms(milliseconds: bytes) -> bytes:
    time.sleep(int(milliseconds) / 1000)
    return b""


def spin_ms(milliseconds: bytes) -> bytes:
    """Computes and lets nobody interrupt it: only killing its process ends it sooner."""
    end_at = time.monotonic() + int(milliseconds) / 1000
    while time.monotonic() < end_at:
        try:
            while time.monotonic() < end_at:
                pass
        except KeyboardInterrupt:
            continue
    return b""


def bytes_n(count: bytes) -> bytes:
    pattern = bytes(range(251))
    return (pattern * (int(count) // 251 + 1))[: int(count)]


def hold_mib(mebibytes: bytes, milliseconds: bytes) -> bytes:
    """Fills so much memory, and has it for so long."""
    held = bytearray(b"x") * (int(mebibytes) << 20)
    time.sleep(int(milliseconds) / 1000)
    return b"%d" % len(held)


def crash(exit_code: bytes = b"") -> bytes:
    if exit_code:
        os._exit(int(exit_code))
    os.abort()


def read_object(value: bytes) -> bytes:
    return value


def submit_child(name: bytes, *arguments: bytes) -> bytes:
    with Client() as client:
        value: bytes = client.submit_named(name.decode(), *arguments).result()
        return value


def print_text(*texts: bytes) -> bytes:
    for text in texts:
        print(text.decode(errors="replace"), end="", flush=True)
    return b""


def _numbers(count: int, milliseconds: int) -> Iterator[bytes]:
    for number in range(count):
        time.sleep(milliseconds / 1000)
        yield b"%d" % number


def stream_n(stream: bytes, window: bytes, count: bytes, milliseconds: bytes = b"0") -> bytes:
    arguments = int(count), int(milliseconds)
    run(_numbers, StreamId(stream), int(window), arguments, {})
    return count
