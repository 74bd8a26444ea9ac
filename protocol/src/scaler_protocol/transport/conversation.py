"""One session in one thread that does nothing else meanwhile: readiness, health, watching.

A round is `poll`, handle the events, send, `settle`, `wait`. No lock and no host: for several threads there is the
blocking driver.
"""

from __future__ import annotations

import math
import time

import zmq

from scaler_protocol.messages import Message
from scaler_protocol.session import SessionEvent
from scaler_protocol.transport.dealer import DealerEndpoint


class Conversation:
    def __init__(self, endpoint: DealerEndpoint) -> None:
        self.endpoint = endpoint
        #: the endpoint has more to do before anything is waited for
        self._has_more = False

    @property
    def is_open(self) -> bool:
        return self.endpoint.is_open

    def poll(self, now: float) -> list[SessionEvent]:
        return self.endpoint.poll(now)

    def send(self, message: Message) -> None:
        self.endpoint.send(message)

    def settle(self, now: float, is_eager: bool = False) -> None:
        """What was sent leaves; eager: with an acknowledgement of what came."""
        self._has_more = self.endpoint.settle(now, is_eager)

    def wait(self, seconds: float) -> None:
        """Until there is something to poll, or something is due; at most for so long."""
        if self._has_more:
            return
        due_at = self.endpoint.next_deadline()
        if due_at is not None:
            seconds = min(seconds, due_at - time.monotonic())
        poller = zmq.Poller()
        poller.register(self.endpoint.fileno(), zmq.POLLIN)  # another one after each dial
        poller.poll(math.ceil(max(0.0, seconds) * 1000))

    def close(self) -> None:
        self.endpoint.close()
