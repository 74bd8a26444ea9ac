"""Recordings of the stream: what was published, and when.

A file begins with the line `scaler-recording 1` and the time of its beginning (seconds of the epoch, f64). Then come
records: microseconds since its beginning (u64), length of the topic (u16), length of the envelope (u32), little-endian,
then both. The envelope is that of the message with `seq` zero. So a recording can be read for as long as the protocol's
messages can. A name that ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import math
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, NamedTuple, cast

from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler_protocol import waits
from scaler_protocol.codec import CodecError, decode, encode
from scaler_protocol.codes import UNKNOWN_MESSAGE
from scaler_protocol.errors import ScalerError
from scaler_protocol.messages import ClusterStatus, Limits, Message
from scaler_protocol.process.private_files import open_private

JUMP_SECONDS = 900.0
"""What a replay shows after a jump begins so long before: as long as the charts of the page."""
JUMP_RECORDS = 100
"""Of what was before, that are heard at once."""

FIRST_LINE = b"scaler-recording 1\n"
_BEGUN = struct.Struct("<d")
_HEAD = struct.Struct("<QHI")
_TOPIC_BYTES = 256
#: No recording of a cluster has a longer pause: such a time is not what was written.
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
    """Writes messages to a file as they arrive. A file that was cut off can be read up to the cut."""

    def __init__(self, path: str | Path) -> None:
        """Begin the file. An earlier one of this name is replaced.

        Args:
            path: if it ends in `.gz`, the file is compressed.

        Raises:
            RecordingError: the file cannot be opened.
        """
        self._path = path
        self._file = _open(path, "wb")
        self._begun_at = time.monotonic()
        self.trouble = ""  #: why it has stopped before its time
        self._append(FIRST_LINE + _BEGUN.pack(time.time()))

    def write(self, topic: str, message: Message) -> None:
        """Append one message. If the disk is full, `trouble` says so, and `close` raises.

        Args:
            topic: the message's, such as "status".
            message: as it was published.
        """
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
        """Close the file. Raises RecordingError if a part of the recording could not be written."""
        try:
            self._file.close()
        except OSError as error:
            self.trouble = self.trouble or f"the recording {self._path} ends early: {error.strerror or error}"
        if self.trouble:
            raise RecordingError(self.trouble)


class Record(NamedTuple):
    """One message of a recording."""

    seconds: float  #: since the beginning
    topic: str  #: such as "status"
    message: Message  #: as it was published


class _DamagedError(Exception):
    pass


class Recording:
    """The records of a file, read once, one at a time."""

    def __init__(self, path: str | Path) -> None:
        """Open the file.

        Args:
            path: of a recording.

        Raises:
            RecordingError: the file cannot be opened, or is no recording.
        """
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
            raise RecordingError(f"{path} is no recording of scaler_top --record, or its beginning is damaged")
        self.begun_at: float = _BEGUN.unpack(begun)[0]

    def __iter__(self) -> Iterator[Record]:
        return self.after(0.0)

    def after(self, start: float) -> Iterator[Record]:
        """The later records. Earlier ones are not decoded.

        Args:
            start: seconds since the beginning.
        """
        seconds = 0.0
        with self._file:
            try:
                while True:
                    frames = self._read(seconds)
                    if frames is None:
                        return
                    seconds, topic, envelope = frames
                    if seconds < start:
                        continue
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

    def duration(self) -> float:
        """Seconds until the last record that can be read. Goes through the file."""
        seconds = 0.0
        with suppress(EOFError, OSError, zlib.error, _DamagedError), self._file:
            while (frames := self._read(seconds)) is not None:
                seconds = frames[0]
        return seconds

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _message(envelope: bytes) -> Message | None:
    """None: of a kind that a newer scheduler publishes, and that we do not know. (MON-6)"""
    try:
        return decode(envelope, ()).message
    except CodecError as error:
        if error.code == UNKNOWN_MESSAGE:
            return None
        raise _DamagedError from None


class Moment(NamedTuple):
    """The place in a recording that a replay has reached."""

    seconds: float  #: since the beginning of the recording
    wall_at: float  #: the same, as seconds of the epoch
    duration: float | None  #: of the recording in seconds; None: not known yet
    speed: float  #: seconds of the recording in each second
    is_paused: bool  #: by `pause`, or because it is over


class Playback:
    """A recording, with the methods of a Subscription.

    Any thread may call `jump`, `pause` and `play`. After a jump, `poll` returns the messages of the 900 s before that
    moment at once, between `on_jump(False)` and `on_jump(True)`.
    """

    def __init__(self, path: str | Path, speed: float = 1.0) -> None:
        """Open the file, and begin to play it.

        Args:
            path: of a recording.
            speed: seconds of the recording in each second. 0: as fast as `poll` is called.

        Raises:
            RecordingError: the file cannot be opened, or is no recording.
        """
        self._path = path
        self._recording = Recording(path)
        self._records = iter(self._recording)
        self._speed = speed
        self._next = next(self._records, None)
        #: it was at so many seconds of the recording at this moment
        self._anchor = 0.0, time.monotonic()
        self._is_paused = False
        self._changed = threading.Condition(waits.Lock())
        self._target: float | None = None  #: to jump to
        self._last = 0.0  #: seconds of the last record that was heard
        self._jumping_to: float | None = None
        self._duration: float | None = None
        self.on_jump: Callable[[bool], None] = lambda is_over: None
        self.is_over = False
        self.state = ClusterState(str(path))

    def poll(self, seconds: float) -> list[Heard]:
        """The messages that are due.

        Args:
            seconds: how long to wait for a first message.
        """
        end_at = time.monotonic() + seconds
        with self._changed:
            target, self._target = self._target, None
        if target is not None:
            self._begin_before(target)
        if self._jumping_to is not None:
            return self._caught_up(self._jumping_to)
        record = self._next
        with self._changed:
            due_at = self._due_at(record)
            if due_at > time.monotonic():
                self._changed.wait_for(self._is_to_jump, min(due_at, end_at) - time.monotonic())
                due_at = self._due_at(record)
            if self._is_to_jump():
                return []
        if record is None:
            self._end()
        elif due_at <= end_at:
            return [self._take(record)]
        return []

    def _is_to_jump(self) -> bool:
        return self._target is not None

    def _due_at(self, record: Record | None) -> float:
        if self._is_paused or record is None:
            return math.inf
        since, at = self._anchor
        return at + ((record.seconds - since) / self._speed if self._speed > 0 else 0.0)

    def _take(self, record: Record) -> Heard:
        self._next, self._last = next(self._records, None), record.seconds
        heard = Heard(record.topic, record.message, time.monotonic(), self._recording.begun_at + record.seconds)
        if isinstance(heard.message, ClusterStatus):
            self.state = replace(self.state, condition=Condition.LIVE, text="", status=heard.message, heard_at=heard.at)
        return heard

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._goes_on_at(max(self._anchor[0], self._last))
            trouble = self._recording.trouble
            condition = Condition.SILENT if trouble else Condition.ENDED
            self.state = replace(self.state, condition=condition, text=trouble or "this is the end of the recording")

    # ------------------------------------------------------------ other moments

    def moment(self) -> Moment:
        """Where the replay is now."""
        with self._changed:
            seconds = self._seconds(time.monotonic())
            return Moment(
                seconds,
                self._recording.begun_at + seconds,
                self._duration,
                self._speed,
                self._is_paused or self.is_over,
            )

    def _seconds(self, now: float) -> float:
        since, at = self._anchor
        seconds = since if self._is_paused or self.is_over else since + (now - at) * self._speed
        return seconds if self._duration is None else min(seconds, self._duration)

    def measure(self) -> None:
        """Find out how long the recording is, for `moment`. For a long recording this takes seconds."""
        with suppress(RecordingError):  # it is there no longer
            self._duration = Recording(self._path).duration()

    def jump(self, seconds: float) -> None:
        """Go on elsewhere in the recording.

        Args:
            seconds: since its beginning.
        """
        with self._changed:
            self._target = max(0.0, seconds if self._duration is None else min(seconds, self._duration))
            self._anchor = self._target, time.monotonic()
            self._changed.notify()

    def pause(self) -> None:
        """Stop where the replay is, until `play` or `jump`."""
        self._go_on(is_paused=True, speed=self._speed)

    def play(self, speed: float) -> None:
        """Go on.

        Args:
            speed: seconds of the recording in each second, above 0.
        """
        self._go_on(is_paused=False, speed=speed)

    def _go_on(self, *, is_paused: bool, speed: float) -> None:
        with self._changed:
            now = time.monotonic()
            self._anchor = self._seconds(now), now
            self._is_paused, self._speed = is_paused, speed
            self._changed.notify()

    def _begin_before(self, target: float) -> None:
        self._recording.close()
        self._recording = Recording(self._path)
        self._records = self._recording.after(target - JUMP_SECONDS)
        self._next = next(self._records, None)
        self.is_over, self._jumping_to = False, target
        self.state = ClusterState(str(self._path))
        self.on_jump(False)

    def _caught_up(self, target: float) -> list[Heard]:
        """A part of what was before the moment that was jumped to; after the last, the replay goes on there."""
        heard: list[Heard] = []
        while self._next is not None and self._next.seconds <= target and len(heard) < JUMP_RECORDS:
            heard.append(self._take(self._next))
        if not heard:
            self._jumping_to = None
            self._goes_on_at(target)
            self.on_jump(True)
        return heard

    def _goes_on_at(self, seconds: float) -> None:
        with self._changed:
            if self._target is None:  # else another jump was asked for meanwhile
                self._anchor = seconds, time.monotonic()

    def ask(self, message: Message) -> None:
        """Do nothing: no scheduler is there to answer.

        Args:
            message: any.
        """

    def close(self) -> None:
        """Close the file."""
        self._recording.close()
