"""A server that the suite plays: the storage beside a scheduler under test, or both of them around a worker or client.

It binds a ROUTER and gives every dialer a session, a `Guest`. What a role does is a subclass with `on_message`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from zmq.utils import z85

from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, ROLES, Message, Unreadable, decode, encode
from scaler_conformance.wire.keys import arm_server

from .conversation import Conversation
from .dialer import SOFTWARE
from .ids import new_id
from .pump import Pump

_ROLE_NAMES = {value: name for name, value in ROLES.items()}
DEFAULT_LIMITS = {"inlineBytes": 65536, "payloadFrameBytes": 67108864, "batchTasks": 65536, "envelopeBytes": 4194304}


class Guest(Conversation):
    """The session of a dialer under test with this host."""

    def __init__(self, host: Host, name: str, hello: Message, routing_id: bytes) -> None:
        super().__init__(host.pump, host.transcript, name)
        self.host = host
        self.hello = hello
        self.routing_id = routing_id
        self.peer_id: bytes = hello["peerId"]
        self.role = _ROLE_NAMES.get(hello["role"], str(hello["role"]))
        self.features = [name for name in hello["features"] if name in host.features]
        self.session_id = host.next_session_id()
        self.is_open = True
        #: for cases that lose the session: it is not resumed any more
        self.is_gone = False
        self.heard_at = time.monotonic()
        #: every message of this session, in order, whoever looked at it
        self.history: list[Message] = []

    def transmit(self, frames: Sequence[bytes]) -> None:
        self.host.transmit(self.routing_id, frames)

    @property
    def limits_in_force(self) -> dict[str, int]:
        return self.host.agreed_limits(self.hello)

    def keeps_limits(self, frames: Sequence[bytes]) -> None:
        limits = self.limits_in_force
        for name, sent in (("envelopeBytes", frames[:1]), ("payloadFrameBytes", frames[1:])):
            size = max(map(len, sent), default=0)
            if size > limits[name]:
                raise Breach(f"{self.name} was sent a frame of {size} bytes; limits.{name} is {limits[name]}", "LIM-1")

    def is_meant(self, hello: Message) -> bool:
        """Whether this Hello may continue this session (SES-7)."""
        is_same = (self.peer_id, self.hello["incarnation"]) == (hello["peerId"], hello["incarnation"])
        return is_same and self.session_id == hello["resume"]["sessionId"] and not self.is_gone

    def outranks(self, hello: Message) -> bool:
        return self.peer_id == hello["peerId"] and int(self.hello["incarnation"]) > int(hello["incarnation"])

    def may_receive(self) -> frozenset[str]:
        return self.host.may_send(self.role)

    # ------------------------------------------------------------ ends of a session, for cases

    def end(self, code: int, ack: int = 0) -> None:
        """A fatal Error: for most codes the dialer is to dial again, and may ask for this session."""
        text = "the suite ends this session"
        self.send_message(Message("error", {"code": code, "fatal": True, "text": text}, 0, ack))

    def forget(self) -> None:
        """This session is not resumed any more."""
        self.is_gone, self.is_open = True, False

    def lose(self, code: int = CODES.LEASE_EXPIRED) -> None:
        """As a server that has forgotten the session, and says so."""
        self.forget()
        self.end(code)

    def resume_after_gap(self, seconds: float) -> None:
        """A number is left out, so the dialer redials and resumes."""
        gap = Message("ping", {"nonce": 1}, self.sent_seq + 2, self.told_ack)
        self._resume_after(lambda: self.send_message(gap), seconds, "SES-9")

    def resume_after_error(self, seconds: float) -> None:
        self._resume_after(lambda: self.end(CODES.SEQUENCE_GAP), seconds, "SES-6")

    def _resume_after(self, tell: Callable[[], object], seconds: float, clause: str) -> None:
        known = len(self.host.hellos)
        tell()
        if not self.pump.until(lambda: len(self.host.hellos) > known, seconds):
            raise Breach(f"it did not dial again within {seconds:g} s", clause)
        self.fence(clause="SES-18")


class Host:
    role = ""

    def __init__(self, pump: Pump, transcript: Transcript, name: str, address: str = "tcp://127.0.0.1:*") -> None:
        self.pump = pump
        self.transcript = transcript
        self.name = name
        self.server_id = new_id()
        #: that its sessions have when the dialer names them too
        self.features: frozenset[str] = frozenset()
        self.guests: list[Guest] = []
        self._sessions = 0
        self._by_routing_id: dict[bytes, Guest] = {}
        self.timers = {"heartbeatSeconds": 2.0, "leaseSeconds": 60.0}
        self.limits: dict[str, int] = dict(DEFAULT_LIMITS)
        #: switches for cases: leave every Hello, or everything, without an answer
        self.is_silent = False
        #: for cases: what every Hello is answered with instead of a Welcome
        self.answer_to_hello: Message | None = None
        #: … or the Hellos of these roles only
        self.deaf_to: frozenset[str] = frozenset()
        self.hellos: list[Message] = []
        #: the sockets that said Hello, in order
        self.routing_ids: list[bytes] = []
        #: for cases: claim at the next resume to have received less than that
        self.forgets = 0
        #: for cases: every resume succeeds, and ends before anything has come of it
        self.breaks_resumes = False
        #: for cases: what its Welcomes name
        self.version = 1
        #: for cases: what a Hello hears instead of a Welcome, while the host is silent
        self.noise_before_welcome: list[list[bytes]] = []
        #: what came while it was silent
        self.unheard: list[tuple[bytes, Message]] = []
        #: messages of sockets that have no session
        self.strangers: list[tuple[bytes, Message]] = []
        self.said_by = ""
        self.socket: zmq.Socket[bytes] = pump.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        if pump.key is not None:
            arm_server(self.socket, pump.key)
        try:
            self.socket.bind(address)
        except zmq.ZMQError:
            self.socket.close()
            raise
        self.address: str = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        pump.add(self)

    def next_session_id(self) -> int:
        self._sessions += 1
        return self._sessions

    def close(self) -> None:
        self.pump.remove(self)

    # ------------------------------------------------------------ what a role adds

    def may_send(self, role: str) -> frozenset[str]:
        return frozenset()

    def welcome(self, hello: Message) -> dict[str, Any]:
        return {}

    def new_guest(self, name: str, hello: Message, routing_id: bytes) -> Guest:
        return Guest(self, name, hello, routing_id)

    def on_guest(self, guest: Guest) -> None:
        """A session has begun."""

    def on_message(self, guest: Guest, message: Message) -> None:
        guest.inbox.append(message)

    # ------------------------------------------------------------ wire

    def transmit(self, routing_id: bytes, frames: Sequence[bytes]) -> None:
        self.socket.send_multipart([routing_id, *frames])

    def on_time(self, now: float) -> None: ...

    def on_frames(self, frames: list[bytes]) -> None:
        routing_id, *rest = frames
        if rest[:1] == [b""]:
            raise Breach(f"{self.name} was sent an empty first frame, as a REQ socket sends it", "FRM-1")
        guest = self._by_routing_id.get(routing_id)
        who = guest.name if guest else self.name
        try:
            message = decode(rest)
        except Unreadable as problem:
            self.transcript.raw(who, "receive", rest, f"unreadable: {problem.text}")
            raise Breach(f"{who} was sent what cannot be read: {problem.text}", problem.clause) from None
        self.transcript.message(who, "receive", message, rest)
        if guest is not None:
            guest.keeps_limits(rest)
        if self.is_silent:
            self.unheard.append((routing_id, message))
            if message.kind == "hello":
                self._make_noise(routing_id)
            return
        if message.kind == "hello":
            self._on_hello(routing_id, message)
        elif guest is None or not guest.is_open:
            self._on_stranger(routing_id, message)
        else:
            self._on_guest_message(guest, message)

    def _make_noise(self, routing_id: bytes) -> None:
        noise, self.noise_before_welcome = self.noise_before_welcome, []
        for frames in noise:
            self.transcript.raw(self.name, "send", frames, "something before the Welcome")
            self.transmit(routing_id, frames)

    def _on_guest_message(self, guest: Guest, message: Message) -> None:
        guest.history.append(message)
        guest.heard_at = time.monotonic()
        before = len(guest.inbox)
        guest.handle(message)
        new = guest.inbox[before:]
        del guest.inbox[before:]
        for each in new:
            if each.kind in ("bye", "error"):
                guest.inbox.append(each)
            else:
                self.on_message(guest, each)

    def _on_stranger(self, routing_id: bytes, message: Message) -> None:
        self.strangers.append((routing_id, message))
        if message.kind not in ("bye", "error", "acknowledge"):
            body = {"code": CODES.NO_SESSION, "refSeq": message.seq, "fatal": True, "text": "say Hello first"}
            self._send_outside(routing_id, Message("error", {**body, "clause": "HSK-9"}))

    def _send_outside(self, routing_id: bytes, message: Message) -> None:
        frames = encode(message)
        self.transcript.message(self.name, "send", decode(frames), frames)
        self.transmit(routing_id, frames)

    # ------------------------------------------------------------ sessions

    def _on_hello(self, routing_id: bytes, hello: Message) -> None:
        if _ROLE_NAMES.get(hello["role"]) in self.deaf_to:
            return
        self._check_ticket(hello)
        self.hellos.append(hello)
        self.routing_ids.append(routing_id)
        if self.answer_to_hello is not None:
            self._send_outside(routing_id, self.answer_to_hello)
            return
        asked = hello["resume"]["sessionId"]
        known = next((guest for guest in self.guests if asked and guest.is_meant(hello)), None)
        if known is not None:
            self._resume(known, routing_id, hello)
            return
        if any(guest.is_open and guest.outranks(hello) for guest in self.guests):
            return  # it was overtaken by another Hello of the same dialer (HSK-14)
        names = sum(guest.role == _ROLE_NAMES.get(hello["role"]) for guest in self.guests)
        guest = self.new_guest(f"{self.name}·{_ROLE_NAMES.get(hello['role'], '?')}{names + 1}", hello, routing_id)
        self.transcript.call(guest.peer_id, f"{_ROLE_NAMES.get(hello['role'], 'peer')}{names + 1}")
        for other in self.guests:
            if other.peer_id == guest.peer_id:
                other.is_open = False
        self.guests.append(guest)
        self._by_routing_id[routing_id] = guest
        self._welcome(guest, resumed=False)
        self.on_guest(guest)

    def _check_ticket(self, hello: Message) -> None:
        key = self.pump.key
        if key is not None and not key.is_ticket(hello["credential"], z85.decode(self.said_by)):
            raise Breach("the Hello has no ticket of this cluster for the key pair of its connection", "HSK-29")

    def _resume(self, guest: Guest, routing_id: bytes, hello: Message) -> None:
        self._by_routing_id.pop(guest.routing_id, None)
        self._by_routing_id[routing_id] = guest
        guest.routing_id = routing_id
        guest.is_open = True
        guest.law_of_numbers = "SES-18"
        guest.received_seq = max(0, guest.received_seq - self.forgets)
        self.forgets = 0
        guest.told_ack = max(guest.told_ack, guest.received_seq)
        self._welcome(guest, resumed=True)
        if self.breaks_resumes:
            guest.end(CODES.SEQUENCE_GAP)
            guest.is_open = False
        else:
            guest.send_again(hello["resume"]["receivedSeq"])

    def _welcome(self, guest: Guest, *, resumed: bool) -> None:
        hello = guest.hello
        timers = hello["timers"]
        body = {
            "version": self.version,
            "serverId": self.server_id,
            "incarnation": 1,
            "sessionId": guest.session_id,
            "resumed": resumed,
            "receivedSeq": guest.received_seq if resumed else 0,
            "features": guest.features,
            "limits": self.agreed_limits(hello),
            "timers": {name: min(value or self.timers[name], self.timers[name]) for name, value in timers.items()},
            "software": SOFTWARE,
            **self.welcome(hello),
        }
        self._send_outside(guest.routing_id, Message("welcome", body))

    def welcome_again(self, guest: Guest) -> None:
        """For cases."""
        self._welcome(guest, resumed=False)

    def agreed_limits(self, hello: Message) -> dict[str, int]:
        """HSK-15."""
        offered = hello["limits"].items()
        return {name: min(value or DEFAULT_LIMITS[name], self.limits[name]) for name, value in offered}

    def forget_everybody(self) -> None:
        """As if it had been started again: whoever speaks next is told that he has no session."""
        self.server_id = new_id()
        for guest in self.guests:
            guest.forget()
        self._by_routing_id.clear()

    # ------------------------------------------------------------ looking

    @property
    def unheard_hellos(self) -> list[Message]:
        return [message for _, message in self.unheard if message.kind == "hello"]

    def stray(self, routing_id: bytes) -> list[str]:
        """The kinds of what came from this socket while it had no session."""
        return [message.kind for known, message in self.strangers if known == routing_id]

    def guest(self, role: str, seconds: float = 10.0, clause: str = "HSK-1") -> Guest:
        """The newest open session of this role, waited for if need be."""

        def newest() -> Guest | None:
            return next((guest for guest in reversed(self.guests) if guest.role == role and guest.is_open), None)

        if not self.pump.until(lambda: newest() is not None, seconds):
            raise Breach(f"no {role} has said Hello to {self.name} within {seconds:g} s", clause)
        found = newest()
        assert found is not None
        return found
