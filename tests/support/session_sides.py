"""One side of a session under test, and a short way to talk to it. Time stands still unless a test moves it."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol import codes
from scaler_protocol.codec import Envelope
from scaler_protocol.ids import RoutingId
from scaler_protocol.messages import Hello, Message, Timers, Welcome
from scaler_protocol.session import Opened, SessionDialer, SessionEvent, SessionServer
from scaler_protocol.session.invariants import check_dialer, check_server
from tests.support.session_words import HELLO, SERVER_ID, decoded

ONE, TWO, THREE = (RoutingId(bytes([number]) * 16) for number in (1, 2, 3))


class Server:
    def __init__(self, **options: object) -> None:
        self.now = 10.0
        terms = {"server_id": SERVER_ID, "role_name": "scheduler", "allowed_roles": {codes.ROLE_CLIENT}, **options}
        self.core = SessionServer(**terms)  # type: ignore[arg-type]

    def say(self, routing_id: RoutingId, message: Message, seq: int = 0, ack: int = 0) -> None:
        self.core.receive(routing_id, Envelope(seq, ack, message), 100, self.now)
        check_server(self.core)

    def round(self) -> list[SessionEvent]:
        self.core.begin(self.now)
        self.core.expire(self.now)
        events = self.core.take_events()
        check_server(self.core)
        return events

    def sent(self) -> list[tuple[RoutingId, Envelope]]:
        return [(routing_id, decoded(frames)) for routing_id, frames in self.core.take_transmissions()]

    def answer(self) -> Message:
        (_, envelope) = self.sent()[-1]
        return envelope.message

    def opened(self, routing_id: RoutingId = ONE, hello: Hello = HELLO) -> Welcome:
        self.say(routing_id, hello)
        (event,) = [event for event in self.round() if isinstance(event, Opened)]
        self.core.take_transmissions()
        return event.welcome


class Dialer:
    def __init__(self, **options: object) -> None:
        self.now = 10.0
        self.core = SessionDialer(**{"hello": HELLO, "server_name": "scheduler", **options})  # type: ignore[arg-type]

    def say(self, message: Message, seq: int = 0, ack: int = 0) -> None:
        self.core.receive(Envelope(seq, ack, message), 100, self.now)
        check_dialer(self.core)

    def round(self) -> list[SessionEvent]:
        self.core.begin(self.now)
        self.core.expire(self.now)
        check_dialer(self.core)
        return self.core.take_events()

    def sent(self) -> list[Envelope]:
        return [decoded(frames) for frames in self.core.take_transmissions()]

    def welcome(self, **changes: object) -> Welcome:
        base = Welcome(version=1, server_id=SERVER_ID, incarnation=1, session_id=17, timers=Timers(1.0, 12.0))
        return replace(base, **changes)  # type: ignore[arg-type]

    def opened(self) -> Dialer:
        assert self.round() == []
        assert [envelope.message for envelope in self.sent()] == [HELLO]
        self.say(self.welcome())
        assert [type(event) for event in self.round()] == [Opened]
        return self
