"""Someone who watches: a subscriber to the monitor's stream."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import Message, Unreadable, decode

from .pump import Pump

#: What is published under which topic. Further topics are free (MON-6).
KINDS = {b"status": "clusterStatus", b"tasks": "taskSamples", b"graphs": "graphShapes", b"logs": "taskLog"}


class MonitorPeer:
    role = "watcher"

    def __init__(self, pump: Pump, transcript: Transcript, name: str, address: str, topics: Sequence[bytes]) -> None:
        self.pump = pump
        self.transcript = transcript
        self.name = name
        self.said_by = ""
        self.published: list[tuple[bytes, Message]] = []
        self.socket: zmq.Socket[bytes] = pump.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        for topic in topics:
            self.socket.setsockopt(zmq.SUBSCRIBE, topic)
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
        self._check(topic, message)
        self.published.append((topic, message))

    def _check(self, topic: bytes, message: Message) -> None:
        kind = KINDS.get(topic, message.kind)
        clause = "MON-1" if topic == b"status" else "MON-8"
        if message.kind != kind:
            raise Breach(f"{message.kind} is published under `{topic.decode()}`, where {kind} belongs", clause)
        if message.seq or message.ack or message.payload:
            raise Breach(f"what is published has seq {message.seq} and ack {message.ack}, not zero", clause)

    def of(self, topic: bytes) -> list[Message]:
        return [message for name, message in self.published if name == topic]

    def on_time(self, now: float) -> None: ...

    def close(self) -> None:
        self.pump.remove(self)
