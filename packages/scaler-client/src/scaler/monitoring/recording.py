"""Recordings of the stream: what was published, and when.

A file begins with the line `scaler-recording 1` and the time of its beginning (seconds of the epoch, f64). Then come
records: microseconds since its beginning (u64), length of the topic (u16), length of the envelope (u32), little-endian,
then both. The envelope is that of the message with `seq` zero. So a recording can be read for as long as the protocol's
messages can. A name that ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, NamedTuple, cast

from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler_protocol.codec import CodecError, decode, encode
from scaler_protocol.codes import UNKNOWN_MESSAGE
from scaler_protocol.errors import ScalerError
from scaler_protocol.messages import ClusterStatus, Limits, Message
from scaler_protocol.process.private_files import open_private

FIRST_LINE = b"scaler-recording 1\n"
_BEGUN = struct.Struct("<d")
_HEAD = struct.Struct("<QHI")
_TOPIC_BYTES = 256
#: Nobody watches a cluster that says nothing for longer: such a time is not what was written.
_SILENCE_SECONDS = 7 * 86_400.0


class RecordingError(ScalerError):
    """A recording that cannot be written or read."""


class _PrivateGzip(gzip.GzipFile):
    """Closes the file that it was given, too."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="wb")
        self._given = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._given.close()


def _open(path: str | Path, mode: str) -> IO[bytes]:
    try:
        if mode == "rb":
            return cast("IO[bytes]", gzip.open(path, mode) if str(path).endswith(".gz") else open(path, mode))
        file = open_private(path)
        return cast("IO[bytes]", _PrivateGzip(file) if str(path).endswith(".gz") else file)
    except OSError as error:
        raise RecordingError(f"the recording {path} cannot be opened: {error.strerror or error}") from None


class Recorder:
    """Writes each message as it comes, so that a recording that was cut off is good up to there."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file = _open(path, "wb")
        self._begun_at = time.monotonic()
        self.trouble = ""  #: why it has stopped before its time
        self._append(FIRST_LINE + _BEGUN.pack(time.time()))

    def write(self, topic: str, message: Message) -> None:
        """Whoever watches goes on when the disk is full."""
        microseconds = int((time.monotonic() - self._begun_at) * 1e6)
        name, (envelope,) = topic.encode(), encode(message)
        self._append(_HEAD.pack(microseconds, len(name), len(envelope)) + name + envelope)

    def _append(self, data: bytes) -> None:
        if self.trouble:
            return
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self.trouble = f"the recording {self._path} ends early: {error.strerror or error}"

    def close(self) -> None:
        """Raises RecordingError when something is missing in the file."""
        try:
            self._file.close()
        except OSError as error:
            self.trouble = self.trouble or f"the recording {self._path} ends early: {error.strerror or error}"
        if self.trouble:
            raise RecordingError(self.trouble)


class Record(NamedTuple):
    seconds: float  #: since the beginning
    topic: str
    message: Message


class _DamagedError(Exception):
    pass


class Recording:
    """Goes through a file once, and holds one record at a time. What is no recording is told at once."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file = _open(path, "rb")
        self.trouble = ""  #: after the last record: why there are no more, unless all were read
        try:
            first = self._file.readline(len(FIRST_LINE))
            begun = self._file.read(_BEGUN.size)
        except (OSError, EOFError, zlib.error):
            first = begun = b""  # also a compressed one that is damaged near its begin: it is read in large parts
        if first != FIRST_LINE or len(begun) < _BEGUN.size:
            self._file.close()
            raise RecordingError(f"{path} is no recording of scaler_top --record, or its begin is damaged")
        self.begun_at: float = _BEGUN.unpack(begun)[0]

    def __iter__(self) -> Iterator[Record]:
        seconds = 0.0
        with self._file:
            try:
                while True:
                    frames = self._read(seconds)
                    if frames is None:
                        return
                    seconds, topic, envelope = frames
                    message = _message(envelope)
                    if message is not None:
                        yield Record(seconds, topic.decode("utf-8", "replace"), message)
            except EOFError:
                self.trouble = f"{self._path} was cut off after {seconds:.1f} s"
            except (_DamagedError, OSError, zlib.error):
                self.trouble = f"{self._path} is damaged after {seconds:.1f} s: the rest cannot be read"

    def _read(self, before: float) -> tuple[float, bytes, bytes] | None:
        """None: there are no more."""
        head = self._file.read(_HEAD.size)
        if not head:
            return None
        if len(head) < _HEAD.size:
            raise EOFError
        microseconds, topic_bytes, envelope_bytes = _HEAD.unpack(head)
        seconds = microseconds / 1e6
        is_possible = before <= seconds <= before + _SILENCE_SECONDS
        if not is_possible or topic_bytes > _TOPIC_BYTES or envelope_bytes > Limits().envelope_bytes:
            raise _DamagedError
        topic, envelope = self._file.read(topic_bytes), self._file.read(envelope_bytes)
        if len(envelope) < envelope_bytes:
            raise EOFError
        return seconds, topic, envelope

    def close(self) -> None:
        self._file.close()


def _message(envelope: bytes) -> Message | None:
    """None: of a kind that a newer scheduler publishes, and that we do not know. (MON-6)"""
    try:
        return decode(envelope, ()).message
    except CodecError as error:
        if error.code == UNKNOWN_MESSAGE:
            return None
        raise _DamagedError from None


class Playback:
    """A recording, with the methods of a Subscription. `speed` 0: as fast as it is asked for."""

    def __init__(self, path: str | Path, speed: float = 1.0) -> None:
        self._recording = Recording(path)
        self._records = iter(self._recording)
        self._speed = speed
        self._next = next(self._records, None)
        self._begun_at = time.monotonic()
        self.is_over = False
        self.state = ClusterState(str(path))

    def poll(self, seconds: float) -> list[Heard]:
        end_at = time.monotonic() + seconds
        if self._next is None:
            self._end()
        else:
            due_at = self._begun_at + (self._next.seconds / self._speed if self._speed > 0 else 0.0)
            if due_at <= end_at:
                time.sleep(max(0.0, due_at - time.monotonic()))
                return [self._take(self._next)]
        time.sleep(max(0.0, end_at - time.monotonic()))
        return []

    def _take(self, record: Record) -> Heard:
        self._next = next(self._records, None)
        heard = Heard(record.topic, record.message, time.monotonic(), self._recording.begun_at + record.seconds)
        if isinstance(heard.message, ClusterStatus):
            self.state = replace(self.state, condition=Condition.LIVE, text="", status=heard.message, heard_at=heard.at)
        return heard

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            trouble = self._recording.trouble
            condition = Condition.SILENT if trouble else Condition.ENDED
            self.state = replace(self.state, condition=condition, text=trouble or "this is the end of the recording")

    def ask(self, message: Message) -> None:
        """Nobody is there to answer."""

    def close(self) -> None:
        self._recording.close()
