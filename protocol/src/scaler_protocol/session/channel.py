"""Both directions of one session: what we sent and may have to send again, and how far we have received (SES).

Theory of operation. Each side numbers its messages from 1 and says in every message how far it has received without
a gap. A message is encoded once; its frames are kept until the other side has acknowledged them and are sent again,
unchanged, when a session is resumed on a new socket. The `ack` inside such an old copy is out of date, which is
harmless because an acknowledgement only ever grows. The receiver drops what it has seen and notices what is missing,
so a session delivers exactly once and in order however many sockets it takes.

What is kept is either `_handed` to the present socket, or `waiting` for it. A dialer hands everything over at once. A
server hands over no more than `window_bytes` that are not acknowledged, because what a socket has been given is copied
there, once more with each socket, and no peer may make a server copy what it does not read (SES-25). Each socket begins
with a small window, which grows with each acknowledgement.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scaler_protocol.messages import Acknowledge, Buffer, Message

if TYPE_CHECKING:
    from scaler_protocol.codec.envelope import Encoded

Frames = Sequence[Buffer]
"""Each as long as its bytes are: a view has the items of one byte."""
Encode = Callable[[Any, int, int], Frames]
"""Of a message, or of one that is encoded already."""
Counts = defaultdict[type, int]

#: An acknowledgement of its own is due after so much came in and nothing went out (SES-4).
ACKNOWLEDGE_MESSAGES = 16
ACKNOWLEDGE_BYTES = 2 * 1024 * 1024

#: What a socket is given without an acknowledgement: at first, and when its peer has acknowledged much. The second lets
#: a peer that acknowledges as seldom as SES-4 allows, every 64 messages or 32 MiB, go on without a pause.
FIRST_WINDOW_BYTES = 4 * 1024 * 1024
LARGEST_WINDOW_BYTES = 33 * 1024 * 1024
#: A peer that never has so much to acknowledge needs no larger window.
_USED_BYTES = FIRST_WINDOW_BYTES // 4

#: What a message weighs in the backlog besides its bytes: many empty messages are a backlog too.
_OVERHEAD_BYTES = 256

_ACKNOWLEDGE = Acknowledge()

IN_ORDER = 0
DUPLICATE = 1
GAP = 2


class Tally:
    """What all channels of one server keep together (LIM-6)."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Channel:
    __slots__ = (
        "_encode",
        "_handed",
        "_tally",
        "_unacknowledged_bytes",
        "_unacknowledged_count",
        "acknowledged_seq",
        "backlog_bytes",
        "received_seq",
        "sent_seq",
        "unsequenced_bytes",
        "waiting",
        "waiting_bytes",
        "window_bytes",
    )

    def __init__(self, encode: Encode, tally: Tally | None = None) -> None:
        self._encode = encode
        self._tally = tally or Tally()
        #: (frames, bytes) of all and only the messages acknowledged_seq + 1 … sent_seq, in order: first those that the
        #: present socket was given, then those that it will be given
        self._handed: deque[tuple[Frames, int]] = deque()
        self.waiting: deque[tuple[Frames, int]] = deque()
        #: sum of the bytes in waiting
        self.waiting_bytes = 0
        #: how many bytes in _handed are enough
        self.window_bytes = FIRST_WINDOW_BYTES
        #: messages outside the sequence that the present socket was given since the last one inside. No acknowledgement
        #: names them; one of the next message in the sequence shows that they were read, so they count with that one.
        self.unsequenced_bytes = 0
        self.sent_seq = 0
        self.acknowledged_seq = 0
        self.received_seq = 0
        #: sum of the bytes in both
        self.backlog_bytes = 0
        #: received since we last told the other side how far we are
        self._unacknowledged_count = 0
        self._unacknowledged_bytes = 0

    # ------------------------------------------------------------ sending

    def send(self, message: Message | Encoded, *, is_later: bool = False) -> Frames:
        """Give `message` its place in the session and keep it. A message that cannot be encoded takes no place. What is
        for later `hand_over` gives to the socket."""
        seq = self.sent_seq + 1
        frames = self._encode(message, seq, self.received_seq)
        self.sent_seq = seq
        size = sum(map(len, frames)) + _OVERHEAD_BYTES
        self._tally.bytes += size
        if is_later:
            self.backlog_bytes += size
            self.waiting_bytes += size
            self.waiting.append((frames, size))
            return frames
        if self.unsequenced_bytes:
            size += self.unsequenced_bytes
            self.unsequenced_bytes = 0
        self.backlog_bytes += size
        self._handed.append((frames, size))
        self._unacknowledged_count = self._unacknowledged_bytes = 0
        return frames

    @property
    def handed_bytes(self) -> int:
        """Given to the present socket and not acknowledged."""
        return self.backlog_bytes - self.waiting_bytes

    @property
    def is_open(self) -> bool:
        """The socket may be given the next message."""
        return not self.waiting and self.backlog_bytes < self.window_bytes

    def hand_over(self, *, is_all: bool = False) -> list[Frames]:
        """What the socket may be given by now, of what waits for it."""
        waiting, handed = self.waiting, self._handed
        portion: list[Frames] = []
        while waiting and (is_all or self.handed_bytes < self.window_bytes):
            frames, size = kept = waiting.popleft()
            handed.append(kept)
            self.waiting_bytes -= size
            portion.append(frames)
        return portion

    def rewind(self) -> None:
        """There is another socket, which has been given nothing yet."""
        if self.waiting:
            self.waiting.extendleft(reversed(self._handed))  # no more than a window
            self._handed.clear()
        else:
            self._handed, self.waiting = self.waiting, self._handed
        self.waiting_bytes = self.backlog_bytes
        self.window_bytes = FIRST_WINDOW_BYTES
        self._tally.bytes -= self.unsequenced_bytes
        self.unsequenced_bytes = 0

    def note_unsequenced(self, frames: Frames) -> None:
        """The socket was given these, outside the sequence."""
        size = sum(map(len, frames)) + _OVERHEAD_BYTES
        self.unsequenced_bytes += size
        self._tally.bytes += size

    def close(self) -> None:
        """The session is over, and what is kept will never be sent."""
        self._tally.bytes -= self.backlog_bytes + self.unsequenced_bytes

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """Bytes and messages that the other side may lack."""
        return self.backlog_bytes, len(self._handed) + len(self.waiting)

    def acknowledgement(self, is_eager: bool = False) -> Frames | None:
        """An Acknowledge if one is due: nothing we sent meanwhile has carried it (SES-4). To be eager is to owe one for
        each message."""
        most = 1 if is_eager else ACKNOWLEDGE_MESSAGES
        if self._unacknowledged_count < most and self._unacknowledged_bytes < ACKNOWLEDGE_BYTES:
            return None
        return self.acknowledge_now()

    def acknowledge_now(self) -> Frames:
        self._unacknowledged_count = self._unacknowledged_bytes = 0
        return self._encode(_ACKNOWLEDGE, 0, self.received_seq)

    def kept_frames(self) -> list[Frames]:
        """What the other side may lack, in order; call `forget` first with what it says it has."""
        return [frames for frames, _ in self._handed]

    # ------------------------------------------------------------ receiving

    def receive(self, seq: int, size: int) -> int:
        """Whether this is the next message, one we had, or one after a hole. Only the first moves anything."""
        if seq != self.received_seq + 1:
            return DUPLICATE if seq <= self.received_seq else GAP
        self.received_seq = seq
        self._unacknowledged_count += 1
        self._unacknowledged_bytes += size
        return IN_ORDER

    def is_possible(self, ack: int) -> bool:
        """A peer cannot have received what was never sent."""
        return ack <= self.sent_seq

    def forget(self, ack: int) -> bool:
        """The other side has everything up to `ack`. Smaller than known: an old copy, nothing to do. False: it names
        what was never sent."""
        left = ack - self.acknowledged_seq
        if left <= 0:
            return True
        if ack > self.sent_seq:
            return False
        self.acknowledged_seq = ack
        handed, size = self._handed, 0
        while left and handed:
            size += handed.popleft()[1]
            left -= 1
        if self.backlog_bytes > _USED_BYTES:
            self.window_bytes = min(self.window_bytes + size, LARGEST_WINDOW_BYTES)
        while left:
            waited = self.waiting.popleft()[1]
            self.waiting_bytes -= waited
            size += waited
            left -= 1
        self.backlog_bytes -= size
        self._tally.bytes -= size
        return True

    def check(self) -> None:
        """Re-derive everything that is counted along the way."""
        kept = [*self._handed, *self.waiting]
        assert len(kept) == self.sent_seq - self.acknowledged_seq, "kept is all and only the unacknowledged"
        assert self.waiting_bytes == sum(size for _, size in self.waiting), "waiting_bytes is the sum of what waits"
        assert self.backlog_bytes == sum(size for _, size in kept), "backlog_bytes is their sum"
        assert FIRST_WINDOW_BYTES <= self.window_bytes <= LARGEST_WINDOW_BYTES
        assert 0 <= self._unacknowledged_count <= self.received_seq, "only received messages wait for acknowledgement"


def counted(encode: Encode, counts: Counts) -> Encode:
    def encode_and_count(message: Message, seq: int, ack: int) -> Frames:
        counts[type(message)] += 1
        return encode(message, seq, ack)

    return encode_and_count
