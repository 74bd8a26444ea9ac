"""A peer that dials: the suite's clients, workers, monitors and schedulers towards a server under test.

It keeps the session layer, answers Pings, acknowledges, and shows life while a case waits. All of that can be switched
off, and `raw` sends anything. What arrives is checked against the laws that hold always.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import zmq

from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import ROLES, Message, code_name
from scaler_conformance.wire.keys import KEY_BYTES, arm_dialer

from .conversation import ANSWER_SECONDS, Conversation
from .ids import new_id, routing_id
from .pump import Pump
from .samples import may_receive

PLAIN_TIMERS = {"heartbeatSeconds": 10.0, "leaseSeconds": 60.0}
SOFTWARE = {"name": "scaler-conformance", "version": "1", "language": "", "host": "conformance", "processId": 0}


class Line:
    """One DEALER socket. A peer has one at a time; those it has left are kept by cases that look at them."""

    def __init__(self, peer: Dialer, address: str, identity: bytes | None = None, watched: int = 0) -> None:
        """`watched`: events of the connection that `monitor` tells, from the first one on."""
        self.peer = peer
        self.said_by = ""
        self.identity = routing_id() if identity is None else identity
        self.socket: zmq.Socket[bytes] = peer.pump.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
        if self.identity:
            self.socket.setsockopt(zmq.ROUTING_ID, self.identity)
        if peer.shown is not None:
            arm_dialer(self.socket, peer.shown)
        self.monitor = self.socket.get_monitor_socket(watched) if watched else None
        self.socket.connect(address)
        #: what came here after the peer had left for another line
        self.inbox: list[Message] = []
        peer.pump.add(self)

    def send(self, frames: Sequence[bytes]) -> None:
        """libzmq gives a connection up for good whose server speaks another mechanism. Nothing can be sent then, and a
        send that waits would wait for ever; the frames are lost, as on any connection that breaks."""
        with suppress(zmq.Again):
            self.socket.send_multipart(frames, zmq.NOBLOCK)

    def on_frames(self, frames: list[bytes]) -> None:
        message = self.peer.read(frames)
        if self is self.peer.line:
            self.peer.handle(message)
        else:
            self.inbox.append(message)

    def on_time(self, now: float) -> None:
        if self is self.peer.line:
            self.peer.on_time(now)

    def close(self) -> None:
        self.peer.pump.remove(self)

    def expect_error(self, code: int, clause: str = "", seconds: float = ANSWER_SECONDS) -> Message:
        """The next thing that comes here is this Error."""
        self.peer.pump.until(lambda: any(message.kind == "error" for message in self.inbox), seconds)
        errors = [message for message in self.inbox if message.kind == "error"]
        if not errors:
            text = f"the socket that {self.peer.name} has left waited for Error {code_name(code)}, and none came"
            raise Breach(text, clause)
        self.inbox.remove(errors[0])
        if errors[0]["code"] != code:
            said = self.peer.transcript.describe(errors[0])
            raise Breach(f"the socket that {self.peer.name} has left was sent {said}, not {code_name(code)}", clause)
        return errors[0]


class Dialer(Conversation):
    def __init__(
        self, pump: Pump, transcript: Transcript, name: str, role: str, address: str, server: str = "scheduler"
    ) -> None:
        super().__init__(pump, transcript, name)
        self.role = role
        self.server = server
        self.address = address
        self.peer_id = new_id()
        transcript.call(self.peer_id, name)
        self.incarnation = 1
        #: its key pair and ticket; None: it dials without, and is a stranger to a cluster that has a key
        self.shown = None if pump.key is None else pump.key.pass_for(secrets.token_bytes(KEY_BYTES))
        self.line: Line | None = None
        self.lines: list[Line] = []
        self.welcome: Mapping[str, Any] = {}

    def transmit(self, frames: Sequence[bytes]) -> None:
        assert self.line is not None, "dial first"
        self.line.send(frames)

    def read(self, frames: Sequence[bytes]) -> Message:
        message = super().read(frames)
        limits = self.welcome.get("limits") if self.is_open and self.checks_laws else None
        if limits:
            for what, frame, most in zip(("envelope", "payload"), frames, _frame_limits(limits), strict=False):
                if len(frame) > most:
                    said = self.transcript.describe(message)
                    text = f"the {what} of {said} to {self.name} has {len(frame)} bytes, and {most} were agreed"
                    raise Breach(text, self.about or ("LIM-3" if message.kind in ("dispatch", "results") else "LIM-1"))
        return message

    def may_receive(self) -> frozenset[str]:
        return frozenset(may_receive(self.server, self.role))

    def handle(self, message: Message) -> None:
        """A Welcome opens the session at once: what is sent again may come right behind it."""
        super().handle(message)
        if message.kind == "welcome" and not self.is_open:
            if message["resumed"]:
                self.is_open = True
                self.law_of_numbers = "SES-18"
                self.send_again(message["receivedSeq"])
            else:
                self.begin_session()
                self.is_open = True
            self.welcome = message.body

    def on_time(self, now: float) -> None:
        """LIV-2 and LIV-3, kept generously: a lease must not run out because a case thinks."""
        is_due = self.is_open and now - self.last_sent_at > float(self.welcome["timers"]["heartbeatSeconds"]) / 2
        if is_due and self.shows_life:
            self.show_life()

    # ------------------------------------------------------------ meeting

    def hello(self, **changes: Any) -> dict[str, Any]:
        body: dict[str, Any] = {
            "versionMin": 1,
            "versionMax": 1,
            "role": ROLES.get(self.role, 0),
            "peerId": self.peer_id,
            "incarnation": self.incarnation,
            "timers": PLAIN_TIMERS,
            "software": SOFTWARE,
        }
        if self.shown is not None:
            body["credential"] = self.shown.ticket
        if self.role == "scheduler":
            body["lastServerId"] = self.peer_id  # its own: it takes no other scheduler for a storage
        if self.role == "manager":
            body["manager"] = {"managerId": self.peer_id, "workersPerUnit": 1}
        return {**body, **changes}

    def dial(self, *, identity: bytes | None = None, **changes: Any) -> Line:
        """A fresh socket and a Hello on it; does not wait for the answer."""
        line = self.connect(identity)
        self.say_hello(**changes)
        return line

    def connect(self, identity: bytes | None = None, watched: int = 0) -> Line:
        self.line = Line(self, self.address, identity, watched)
        self.lines.append(self.line)
        return self.line

    def say_hello(self, **changes: Any) -> None:
        self.send_message(Message("hello", self.hello(**changes)))

    def open(self, **changes: Any) -> None:
        self.is_open = False
        self.dial(**changes)
        self.expect_welcome()

    def expect_welcome(self, clause: str = "HSK-10", seconds: float = ANSWER_SECONDS) -> Message:
        answer = self.expect("welcome", "reject", "error", clause=clause, seconds=seconds)
        if answer.kind != "welcome":
            said = self.transcript.describe(answer)
            raise Breach(f"{self.name} was sent {said} and expected Welcome", clause)
        return answer

    def expect_reject(self, code: int, clause: str = "", seconds: float = ANSWER_SECONDS) -> Message:
        answer = self.expect("welcome", "reject", "error", clause="HSK-10", seconds=seconds)
        if answer.kind != "reject" or answer["code"] != code:
            said = self.transcript.describe(answer)
            raise Breach(f"{self.name} was sent {said} and expected Reject {code_name(code)}", clause)
        return answer

    def resume(self, received_seq: int | None = None, **changes: Any) -> Message:
        """Redial and ask for the session to go on; what the server lacks is sent again. The answer is the Welcome."""
        received = self.received_seq if received_seq is None else received_seq
        self.is_open = False
        self.dial(resume={"sessionId": self.welcome["sessionId"], "receivedSeq": received}, **changes)
        return self.expect_welcome("SES-7")

    # ------------------------------------------------------------ parting

    def leave(self, seconds: float = 2.0) -> None:
        """Bye, and the proof that it was handled: whoever has no session is told so (HSK-9)."""
        if self.is_open and self.line is not None:
            self.checks_laws = False
            self.inbox.clear()
            self.bye()
            self.send_message(Message("ping", {"nonce": 0}, self.sent_seq + 1, self.received_seq))
            if not self.pump.until(lambda: any(message.kind == "error" for message in self.inbox), seconds):
                raise Breach(f"{self.name} said Bye and then a Ping, and was not told NO_SESSION", "HSK-9")

    def close(self) -> None:
        self.is_open = False
        for line in self.lines:
            line.close()
        self.lines.clear()
        self.line = None

    def refused(self, frames: Sequence[bytes], text: str, *codes: int, ref_seq: int, clause: str = "") -> Message:
        """Send these frames; they are refused with one of these codes, not fatal, and the session goes on."""
        self.raw(frames, text)
        error = self.expect_error(*codes, ref_seq=ref_seq, fatal=False, clause=clause)
        self.fence(clause=clause)
        return error


def _frame_limits(limits: Mapping[str, int]) -> tuple[int, int]:
    return limits["envelopeBytes"], limits["payloadFrameBytes"]
