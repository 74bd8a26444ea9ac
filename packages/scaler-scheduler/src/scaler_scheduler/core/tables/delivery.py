"""What leaves for clients, and what waits until they have read more (SCH-45, SCH-46).

Theory of operation. The session keeps every message until the client acknowledges it, and ends when that becomes too
much: then all that the client had not read was computed in vain. So a client may grant a window: while that many
bytes are on their way and not acknowledged, its results wait here, outside of the session, and no further task of it is
given to a worker. All else, such as a Pong or a CancelReply, passes by what waits.

No message is needed for this, and on the fast path no question either. `Window.sent_bytes` is at least what is not
acknowledged: what it was when the session was last asked, and all that was let out since. The session is asked when
that would exceed the window, and, for clients with results that wait, once in each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.messages import KeptResults, Message, Results, TaskLog
from scaler_scheduler.core.entities.clients import Client, Window
from scaler_scheduler.core.entities.results import merge
from scaler_scheduler.core.tables.ready import ReadyQueue

#: Of a client that names no other, or a larger one: twice what may come in before an acknowledgement is due (SES-4).
DEFAULT_WINDOW_BYTES = 64 * 1024 * 1024
#: Results for all clients that do not read. Beyond this, windows that close are no larger than the smallest.
ALL_WINDOWS_BYTES = 1024 * 1024 * 1024
SMALLEST_WINDOW_BYTES = 1024 * 1024

#: What a message weighs besides its payload: at most so much for each row, and for the rest of the envelope.
ROW_BYTES = 56
ENVELOPE_BYTES = 1024

_BULK = frozenset({Results, KeptResults, TaskLog})


class Delivery:
    def __init__(self, ready: ReadyQueue, unacknowledged: Callable[[PeerId], int]) -> None:
        self._ready = ready
        self._unacknowledged = unacknowledged
        #: all and only the clients of which something waits
        self.slow: dict[Client, Window] = {}
        #: bytes let out in this turn, of which the session knows nothing before the turn is over
        self.let_out: dict[Client, int] = {}

    def outgoing(self, client: Client, messages: list[Message]) -> list[Message]:
        """Neighbouring results become one message, what is too large for this client several; and what its window has
        no room for waits."""
        first = messages[0]
        if len(messages) > 1 or (type(first) is Results and len(first.ids) > ID_BYTES):
            messages = _merged(client, messages)
        window = client.window
        if window is None:
            return messages
        if not window.waiting:
            size = sum(map(size_of, messages), window.sent_bytes)
            if size <= window.limit:
                window.sent_bytes = size
                return messages
            window.sent_bytes = self._unacknowledged(client.peer_id) + self.let_out.get(client, 0)
        return self._keep_back(client, window, messages)

    def _keep_back(self, client: Client, window: Window, messages: list[Message]) -> list[Message]:
        """What there is no room for. A single message may exceed the window, or a large one would never leave."""
        limit = self._limit_of(window)
        passed: list[Message] = []
        for message in messages:
            size = size_of(message)
            if type(message) in _BULK and (window.waiting or window.sent_bytes >= limit):
                window.waiting.append(message)
                window.waiting_bytes += size
            else:
                passed.append(message)
                window.sent_bytes += size
        if window.waiting and client not in self.slow:
            self.slow[client] = window
            self._ready.hold(client)
        return passed

    def next_of(self, client: Client, window: Window) -> list[Message]:
        """What may leave now because its client has read: in order, and as much as there is room for."""
        window.sent_bytes = self._unacknowledged(client.peer_id)
        before, limit = window.sent_bytes, self._limit_of(window)
        passed: list[Message] = []
        while window.waiting and window.sent_bytes < limit:
            message = window.waiting.popleft()
            size = size_of(message)
            window.waiting_bytes -= size
            window.sent_bytes += size
            passed.append(message)
        self.let_out[client] = window.sent_bytes - before
        if not window.waiting:
            self.forget(client)
        return passed

    def forget(self, client: Client) -> None:
        """Nothing of it waits any more, or it has gone."""
        if self.slow.pop(client, None) is not None:
            self._ready.release(client)

    def _limit_of(self, window: Window) -> int:
        if not self.slow:
            return window.limit
        others = sum(other.sent_bytes + other.waiting_bytes for other in self.slow.values() if other is not window)
        return min(window.limit, max(SMALLEST_WINDOW_BYTES, ALL_WINDOWS_BYTES - others))


def window_of(named_bytes: int) -> int:
    """The window of a client that names this one. A client that reads is not slower with the default than with a larger
    one, and one that does not read costs the scheduler what its window has room for. (LIM-15)"""
    return min(named_bytes or DEFAULT_WINDOW_BYTES, DEFAULT_WINDOW_BYTES)


def waiting_ids(client: Client) -> Iterator[tuple[bytes, ...]]:
    """Tasks that have ended, and whose result waits here, message by message."""
    if client.window is not None:
        for message in tuple(client.window.waiting):
            if type(message) is Results:
                yield split_ids(message.ids)


def size_of(message: Message) -> int:
    if type(message) is Results or type(message) is KeptResults:
        return len(message.payload) + ROW_BYTES * len(message.ids) // ID_BYTES + ENVELOPE_BYTES
    return len(message.text) + ENVELOPE_BYTES if type(message) is TaskLog else ENVELOPE_BYTES


def _merged(client: Client, messages: list[Message]) -> list[Message]:
    payload_limit = client.payload_limit if client.window is None else min(client.payload_limit, client.window.limit)
    merged: list[Message] = []
    run: list[Results] = []
    for message in messages:
        if type(message) is Results:
            run.append(message)
            continue
        merged += merge(run, client.rows_limit, payload_limit)
        run = []
        merged.append(message)
    return merged + merge(run, client.rows_limit, payload_limit)
