"""Both directions of one session: what we sent and may have to send again, and how far we have received (SES).

Theory of operation. Each side numbers its messages from 1 and says in every message how far it has received without
a gap. A message is encoded once; its frames are kept until the other side has acknowledged them and are sent again,
unchanged, when a session is resumed on a new socket. The `ack` inside such an old copy is out of date, which is
harmless because an acknowledgement only ever grows. The receiver drops what it has seen and notices what is missing,
so a session delivers exactly once and in order however many sockets it takes.
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
ACKNOWLEDGE_BYTES = 16 * 1024 * 1024

#: What a message weighs in the backlog besides its bytes: many empty messages are a backlog too.
_OVERHEAD_BYTES = 256

_ACKNOWLEDGE = Acknowledge()

IN_ORDER = 0
DUPLICATE = 1
GAP = 2


class Channel:
    __slots__ = (
        "_encode",
        "_kept",
        "_unacknowledged_bytes",
        "_unacknowledged_count",
        "acknowledged_seq",
        "backlog_bytes",
        "received_seq",
        "sent_seq",
    )

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        #: (frames, bytes) of all and only the messages acknowledged_seq + 1 … sent_seq, in order
        self._kept: deque[tuple[Frames, int]] = deque()
        self.sent_seq = 0
        self.acknowledged_seq = 0
        self.received_seq = 0
        #: sum of the bytes in _kept
        self.backlog_bytes = 0
        #: received since we last told the other side how far we are
        self._unacknowledged_count = 0
        self._unacknowledged_bytes = 0

    # ------------------------------------------------------------ sending

    def send(self, message: Message | Encoded) -> Frames:
        """Give `message` its place in the session and keep it. A message that cannot be encoded takes no place."""
        seq = self.sent_seq + 1
        frames = self._encode(message, seq, self.received_seq)
        self.sent_seq = seq
        size = sum(map(len, frames)) + _OVERHEAD_BYTES
        self._kept.append((frames, size))
        self.backlog_bytes += size
        self._unacknowledged_count = self._unacknowledged_bytes = 0
        return frames

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """Bytes and messages that the other side may lack."""
        return self.backlog_bytes, len(self._kept)

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
        return [frames for frames, _ in self._kept]

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
        """Nobody can have received what was never sent."""
        return ack <= self.sent_seq

    def forget(self, ack: int) -> bool:
        """The other side has everything up to `ack`. Smaller than known: an old copy, nothing to do. False: it names
        what was never sent."""
        if ack > self.sent_seq:
            return False
        kept = self._kept
        while self.acknowledged_seq < ack:
            self.backlog_bytes -= kept.popleft()[1]
            self.acknowledged_seq += 1
        return True

    def check(self) -> None:
        """Re-derive everything that is counted along the way."""
        assert len(self._kept) == self.sent_seq - self.acknowledged_seq, "kept is all and only the unacknowledged"
        assert self.backlog_bytes == sum(size for _, size in self._kept), "backlog_bytes is their sum"
        assert 0 <= self._unacknowledged_count <= self.received_seq, "only received messages wait for acknowledgement"


def counted(encode: Encode, counts: Counts) -> Encode:
    def encode_and_count(message: Message, seq: int, ack: int) -> Frames:
        counts[type(message)] += 1
        return encode(message, seq, ack)

    return encode_and_count
