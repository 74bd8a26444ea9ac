"""Someone who watches: a subscriber to the monitor's stream."""

from __future__ import annotations

import zmq

from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import Message, Unreadable, decode

from .pump import Pump


class MonitorPeer:
    role = "watcher"

    def __init__(self, pump: Pump, transcript: Transcript, name: str, address: str) -> None:
        self.pump = pump
        self.transcript = transcript
        self.name = name
        self.published: list[tuple[bytes, Message]] = []
        self.socket: zmq.Socket[bytes] = pump.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.connect(address)
        pump.add(self)

    def on_frames(self, frames: list[bytes]) -> None:
        topic, *rest = frames
        try:
            message = decode(rest)
        except Unreadable as problem:
            self.transcript.raw(self.name, "receive", frames, f"unreadable: {problem.text}")
            raise Breach(f"what was published cannot be read: {problem.text}", "MON-1") from None
        self.transcript.message(self.name, "receive", message, frames)
        self.published.append((topic, message))

    def on_time(self, now: float) -> None: ...

    def close(self) -> None:
        self.pump.remove(self)
