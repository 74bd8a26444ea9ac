"""The dialer's socket (skeleton)."""

from __future__ import annotations

import zmq

from scaler_protocol.messages import Message
from scaler_protocol.session import SessionDialer, SessionEvent


class DealerEndpoint:
    """`socket` is another one when `generation` has risen, which happens only inside poll(); the one before stays
    open until the next poll(), so that a loop can take it out of its poller first."""

    socket: zmq.Socket[bytes]
    generation: int
    address: str

    def __init__(self, address: str, dialer: SessionDialer) -> None: ...  # AddressError; dials at the first poll()
    def fileno(self) -> int: ...
    def poll(self, now: float) -> list[SessionEvent]: ...
    def send(self, message: Message) -> None: ...
    def settle(self, now: float) -> bool: ...
    def next_deadline(self) -> float | None: ...
    def bye(self, code: int = 0, text: str = "") -> None: ...  # Lost(is_orderly=True) follows in the next poll
    def redial(self) -> None: ...  # after Lost or Rejected: begin a new session at the next poll
    def close(self) -> None: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def backlog_bytes(self) -> int: ...  # sent and not yet acknowledged
    @property
    def sent_counts(self) -> dict[str, int]: ...
    @property
    def received_counts(self) -> dict[str, int]: ...
