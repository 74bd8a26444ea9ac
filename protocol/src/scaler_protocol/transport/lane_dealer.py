"""What a dialer's endpoint needs of a connection of the local lane: the same as of a ZeroMQ socket."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable

from scaler_protocol.addresses import Address
from scaler_protocol.messages import Limits
from scaler_protocol.session.channel import Frames
from scaler_protocol.transport import lane
from scaler_protocol.transport.framing import Parts


class LaneDealer:
    """With an epoll of its own, for one descriptor that is readable whenever there is something to do: level-triggered,
    so that nothing has to be asked for before waiting."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self._epoll = select.epoll()
        self._connection = lane.Connection(connection, self._epoll, limits)
        self.descriptor = self._epoll.fileno()

    @classmethod
    def to(cls, address: Address, limits: Limits, has_keys: bool = False) -> LaneDealer | None:
        """None: there is no lane to this address, or no descriptor left for it."""
        try:
            connection = lane.connect(address, has_keys)
            return None if connection is None else cls(connection, limits)
        except OSError:
            return None

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    @property
    def is_drained(self) -> bool:
        return not self._connection.has_more

    def has_input(self) -> bool:
        return self._connection.has_more

    def messages(self) -> Iterable[Parts]:
        connection = self._connection
        if connection.is_blocked:
            connection.flush()
        return connection.read()

    def send(self, messages: Iterable[Frames]) -> None:
        for frames in messages:
            self._connection.queue(frames)
        if not self._connection.is_blocked:
            self._connection.flush()

    def close(self, linger_milliseconds: int) -> None:
        self._connection.close(time.monotonic() + linger_milliseconds / 1000)
        self._epoll.close()
