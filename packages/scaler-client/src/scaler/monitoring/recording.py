"""Recordings of the stream: what was published, byte by byte, and when.

A file begins with the line `scaler-recording 1` and then holds records: microseconds since its beginning (u64), length
of the topic (u16), length of the envelope (u32), little-endian, then both as they came. So a recording can be read for
as long as the protocol's messages can. A name that ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler_protocol.codec import CodecError, decode
from scaler_protocol.errors import ScalerError
from scaler_protocol.messages import ClusterStatus, Limits, Message

FIRST_LINE = b"scaler-recording 1\n"
_HEAD = struct.Struct("<QHI")
_TOPIC_BYTES = 256


class RecordingError(ScalerError):
    """A recording that cannot be written or read."""


def _open(path: str | Path, mode: str) -> IO[bytes]:
    try:
        return cast("IO[bytes]", gzip.open(path, mode) if str(path).endswith(".gz") else open(path, mode))
    except OSError as error:
        raise RecordingError(f"the recording {path} cannot be opened: {error.strerror or error}") from None


class Recorder:
    """Writes each message as it comes, so that a recording that was cut off is good up to there."""

    def __init__(self, path: str | Path) -> None:
        self._file = _open(path, "wb")
        self._file.write(FIRST_LINE)
        self._begun_at = time.monotonic()

    def write(self, topic: bytes, envelope: bytes) -> None:
        microseconds = int((time.monotonic() - self._begun_at) * 1e6)
        self._file.write(_HEAD.pack(microseconds, len(topic), len(envelope)) + topic + envelope)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def records(path: str | Path) -> Iterator[tuple[float, str, Message]]:
    """Seconds since the beginning, topic, message. The end of a file that was cut off is the end of the recording."""
    with _open(path, "rb") as file:
        try:
            if file.readline(len(FIRST_LINE)) != FIRST_LINE:
                raise RecordingError(f"{path} is no recording of scaler_top --record")
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                microseconds, topic_bytes, envelope_bytes = _HEAD.unpack(head)
                if topic_bytes > _TOPIC_BYTES or envelope_bytes > Limits().envelope_bytes:
                    raise RecordingError(f"{path} is damaged after {microseconds / 1e6:.1f} s")
                topic, envelope = file.read(topic_bytes), file.read(envelope_bytes)
                if len(envelope) < envelope_bytes:
                    return
                yield microseconds / 1e6, topic.decode("utf-8", "replace"), decode(envelope, ()).message
        except (OSError, EOFError, CodecError) as error:
            raise RecordingError(f"{path} cannot be read to its end: {error}") from None


class Playback:
    """A recording, with the methods of a Subscription. `speed` 0: as fast as it is asked for."""

    def __init__(self, path: str | Path, speed: float = 1.0) -> None:
        self._records = records(path)
        self._speed = speed
        self._next = next(self._records, None)  # what is no recording is told at once
        self._begun_at = time.monotonic()
        self.is_over = self._next is None
        self.state = ClusterState(str(path), text="the recording is empty" if self.is_over else "")

    def poll(self, seconds: float) -> list[Heard]:
        end_at = time.monotonic() + seconds
        while self._next is not None:
            due_at = self._begun_at + (self._next[0] / self._speed if self._speed > 0 else 0.0)
            if due_at > end_at:
                break
            time.sleep(max(0.0, due_at - time.monotonic()))
            _, topic, message = self._next
            self._next = next(self._records, None)
            heard = Heard(topic, message, time.monotonic())
            self._take(heard)
            return [heard]
        if self._next is None and not self.is_over:
            self.is_over = True
            self.state = replace(self.state, condition=Condition.SILENT, text="this is the end of the recording")
        time.sleep(max(0.0, end_at - time.monotonic()))
        return []

    def ask(self, message: Message) -> None:
        """Nobody is there to answer."""

    def close(self) -> None:
        self._records.close()  # type: ignore[attr-defined]

    def _take(self, heard: Heard) -> None:
        if isinstance(heard.message, ClusterStatus):
            self.state = replace(self.state, condition=Condition.LIVE, text="", status=heard.message, heard_at=heard.at)
