"""Sessions that watch: which topics each has asked for, and how much may be on its way to each (MON-18 to MON-21).

A watcher that reads slowly, or not at all, costs a bounded amount: a publication for which its window has no room is
left out, counted, and never queued. The window opens again with the watcher's acknowledgements, and then the next
publication goes out: so the watcher gets the latest state and not the past ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.codes import OVERLOADED
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Error, Message, TaskLog, Watch
from scaler_protocol.session.bounds import Quota

STATUS, TASKS, GRAPHS, LOGS, STACKS = "status", "tasks", "graphs", "logs", "stacks"
TOPICS = frozenset((STATUS, TASKS, GRAPHS, LOGS, STACKS))

WATCHERS = Quota(first=4, further=100)
WINDOW_MESSAGES = 32
"""A watcher that acknowledges no more often than SES-4 asks, every sixteenth message, still gets everything."""
WINDOW_LOGS = 256
"""Output of tasks comes in bursts of small messages."""
WINDOW_BYTES = 1024 * 1024
TOTAL_BYTES = 32 * 1024 * 1024
"""Of all windows together: with many watchers each has less."""

Send = Callable[[PeerId, Message | Encoded], int]
Unacknowledged = Callable[[PeerId], tuple[int, int]]
UserOf = Callable[[PeerId], str]


class Watchers:
    """`sequences` of publications rise also while a watcher gets none, so each watcher sees how many it has missed."""

    def __init__(self, send: Send, unacknowledged: Unacknowledged, user_of: UserOf) -> None:
        self._send = send
        self._unacknowledged = unacknowledged
        self._user_of = user_of
        self._topics: dict[PeerId, frozenset[str]] = {}
        #: publications that slow watchers did not get, since the start
        self.left_out_count = 0

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._topics)

    def watch(self, peer_id: PeerId, seq: int, message: Watch) -> Error | None:
        """From now on these topics, and no others. An Error: there are too many watchers."""
        topics = TOPICS.intersection(message.topics)
        if not topics:
            self._topics.pop(peer_id, None)
        elif peer_id in self._topics or self._has_place_for(peer_id):
            self._topics[peer_id] = topics
        else:
            text = f"{len(self._topics)} others watch this scheduler already: end one of them, or ask for snapshots"
            return Error(OVERLOADED, seq, False, text, "MON-19")
        return None

    def _has_place_for(self, peer_id: PeerId) -> bool:
        return WATCHERS.has_room(Counter(map(self._user_of, self._topics)), self._user_of(peer_id))

    def lost(self, peer_id: PeerId) -> None:
        self._topics.pop(peer_id, None)

    def topics(self) -> frozenset[str]:
        """Those that any session watches."""
        return frozenset().union(*self._topics.values())

    def publish(self, topic: str, message: Message) -> Encoded | None:
        """What was sent, unless to none."""
        encoded: Encoded | None = None
        most = WINDOW_LOGS if type(message) is TaskLog else WINDOW_MESSAGES
        for peer_id, topics in self._topics.items():
            if topic not in topics:
                continue
            if not self.has_room(peer_id, most):
                self.left_out_count += 1
                continue
            if encoded is None:
                encoded = Encoded(message)
            self._send(peer_id, encoded)
        return encoded

    def has_room(self, peer_id: PeerId, most: int = WINDOW_MESSAGES) -> bool:
        """Whether one message more may be on its way to this monitor. One may always be, however large."""
        size, count = self._unacknowledged(peer_id)
        return count == 0 or (count < most and size < min(WINDOW_BYTES, TOTAL_BYTES // max(1, len(self._topics))))
