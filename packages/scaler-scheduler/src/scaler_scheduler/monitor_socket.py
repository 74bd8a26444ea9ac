"""The PUB side of the monitor stream (MON-1, MON-2): costs nothing while nobody listens."""

from __future__ import annotations

import zmq

from scaler_protocol.addresses import AddressError, bindable, parse_address
from scaler_protocol.codec import encode
from scaler_protocol.messages import Message
from scaler_protocol.transport import zmq_context
from scaler_protocol.transport.sockets import bind_text

STATUS, TASKS, GRAPHS, LOGS = b"status", b"tasks", b"graphs", b"logs"
TOPICS = (STATUS, TASKS, GRAPHS, LOGS)
#: A watcher that is slower than this many publications misses some, and sees the gap.
BACKLOG_MESSAGES = 100
#: Nobody subscribes to more that anybody could mean, and what is longer than any topic is none.
SUBSCRIPTIONS_LIMIT = 1_000
SUBSCRIPTION_BYTES = 64


class MonitorSocket:
    """XPUB, because it tells the publisher whether anybody listens, and to what."""

    def __init__(self, address: str) -> None:
        parsed = parse_address(address, is_bind=True)
        self._socket = zmq_context().socket(zmq.XPUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, BACKLOG_MESSAGES)
        try:
            self._socket.bind(bindable(parsed))
        except zmq.ZMQError as error:
            self._socket.close()
            raise AddressError(f"{bind_text(parsed, error)} with --monitor-address") from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._subscriptions: set[bytes] = set()

    def topics(self) -> frozenset[bytes]:
        """Those of ours that anybody listens to now."""
        while self._socket.poll(0):
            notice = self._socket.recv()
            if len(notice) > SUBSCRIPTION_BYTES:
                continue
            if notice[:1] == b"\1" and len(self._subscriptions) < SUBSCRIPTIONS_LIMIT:
                self._subscriptions.add(notice[1:])
            elif notice[:1] == b"\0":
                self._subscriptions.discard(notice[1:])
        return frozenset(topic for topic in TOPICS if any(topic.startswith(one) for one in self._subscriptions))

    def publish(self, topic: bytes, message: Message) -> None:
        self._socket.send_multipart([topic, *encode(message)])

    def close(self) -> None:
        self._socket.close()
