"""One side of a session, as chapter 03 wants it: numbers, acknowledgements, Pongs, and the laws that hold always.

Dialers and guests of a host share it; they differ in how they meet and in who sends again after a broken connection.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, Unreadable, code_name, decode, encode

from .pump import Pump

#: When an answer counts as missing. Long, because nothing waits for it but failures; a fence is exact.
ANSWER_SECONDS = 5.0
ACKNOWLEDGE_EVERY = 16
#: Nonces of Pings that the driver sends by itself, to show life.
OWN_NONCES = 1 << 62
#: Nonces of fences; cases choose small ones.
FENCE_NONCES = 1 << 48

#: What every role may be sent (HSK-13).
COMMON = frozenset({"welcome", "reject", "bye", "ping", "pong", "acknowledge", "error"})
_OUTSIDE = frozenset({"hello", "welcome", "reject", "acknowledge"})


class Conversation(ABC):
    def __init__(self, pump: Pump, transcript: Transcript, name: str) -> None:
        self.pump = pump
        self.transcript = transcript
        self.name = name
        #: what came and no case has looked at yet
        self.inbox: list[Message] = []
        self.is_open = False
        #: switches for cases that want to do these things themselves, or not at all
        self.answers_pings = True
        self.acknowledges = True
        self.shows_life = True
        #: as if nothing after this had been read: no `ack` is higher
        self.reads_until: int | None = None
        self.checks_laws = True
        #: the clause that a case is about: a law that is broken meanwhile is that clause's
        self.about = ""
        self.begin_session()

    def begin_session(self) -> None:
        self.sent_seq = 0
        self.received_seq = 0
        #: the highest number that was ever sent, whether or not it was counted
        self.said_seq = 0
        #: whose law the order of numbers is: after a resume it is that of sending again
        self.law_of_numbers = "SES-1"
        #: the highest number that the other side has acknowledged
        self.acknowledged_seq = 0
        #: the highest ack that the other side was told: it may have forgotten what is below
        self.told_ack = 0
        self.sent: list[tuple[int, list[bytes]]] = []
        self._unacknowledged = 0
        self._nonce = 0
        self._pongs: dict[int, Message] = {}
        self.last_sent_at = self.last_heard_at = time.monotonic()

    @abstractmethod
    def transmit(self, frames: Sequence[bytes]) -> None: ...

    @abstractmethod
    def may_receive(self) -> frozenset[str]:
        """The kinds that the other side may send to this one, beyond those of all."""

    # ------------------------------------------------------------ sending

    def send(self, kind: str, *, payload: bytes | None = None, seq: int | None = None, **body: Any) -> int:
        """One sequenced message; its number. With `seq` it is given that number, and the count stays."""
        if seq is None:
            self.sent_seq += 1
        number = self.sent_seq if seq is None else seq
        frames = self.send_message(Message(kind, body, number, self._ack, () if payload is None else (payload,)))
        if seq is None:
            self.sent.append((number, frames))
        return number

    def send_batch(self, kind: str, body: Mapping[str, Any], **changes: Any) -> int:
        """A body from `write_tasks` or `write_results`, whose payload is among its fields."""
        fields = {**body, **changes}
        payload = fields.pop("payload")
        return self.send(kind, payload=payload, **fields)

    def raw(self, frames: Sequence[bytes], text: str) -> None:
        """Whatever a case has made."""
        self.transcript.raw(self.name, "send", frames, text)
        self.transmit(frames)

    def next_seq(self) -> int:
        """Take a number for a message that is sent by `raw`."""
        self.sent_seq += 1
        return self.sent_seq

    def acknowledge(self, ack: int | None = None) -> None:
        self._unacknowledged = 0
        self.send_message(Message("acknowledge", {}, 0, self._ack if ack is None else ack))

    @property
    def _ack(self) -> int:
        return self.received_seq if self.reads_until is None else min(self.received_seq, self.reads_until)

    def send_message(self, message: Message) -> list[bytes]:
        frames = encode(message)
        self.send_frames(frames, message)
        return frames

    def send_frames(self, frames: list[bytes], message: Message) -> None:
        self.transcript.message(self.name, "send", _as_received(message, frames), frames)
        self.told_ack = max(self.told_ack, message.ack)
        self.said_seq = max(self.said_seq, message.seq)
        self.transmit(frames)
        self.last_sent_at = time.monotonic()

    def send_again(self, above: int) -> None:
        """SES-18."""
        for seq, frames in self.sent:
            if seq > above:
                try:
                    self.send_frames(frames, decode(frames))
                except Unreadable:
                    self.raw(frames, f"#{seq}   once more what nobody can read")

    # ------------------------------------------------------------ receiving

    def read(self, frames: Sequence[bytes]) -> Message:
        try:
            message = decode(frames)
        except Unreadable as problem:
            self.transcript.raw(self.name, "receive", frames, f"unreadable: {problem.text}")
            text = f"{self.name} was sent a message that cannot be read: {problem.text}"
            raise Breach(text, problem.clause) from None
        self.transcript.message(self.name, "receive", message, frames)
        return message

    def handle(self, message: Message) -> None:
        self.last_heard_at = time.monotonic()
        if self.checks_laws:
            self._check_laws(message)
        self.acknowledged_seq = max(self.acknowledged_seq, message.ack)
        if message.seq and self.is_open:
            if message.seq <= self.received_seq:
                return  # SES-10: sent again
            self.received_seq = message.seq
            self._unacknowledged += 1
        if message.kind == "ping" and self.answers_pings:
            self.send("pong", nonce=message["nonce"])
        elif message.kind == "pong":
            self._pongs[message["nonce"]] = message
        elif message.kind != "acknowledge":
            if message.kind == "bye" or (message.kind == "error" and message["fatal"]):
                self.is_open = False
            self.inbox.append(message)
        if self.acknowledges and self.is_open and self._unacknowledged >= ACKNOWLEDGE_EVERY:
            self.acknowledge()

    def _check_laws(self, message: Message) -> None:
        try:
            self._check_numbers(message)
        except Breach as breach:
            raise Breach(breach.text, self.about or breach.clause) from None
        if message.kind not in COMMON and message.kind not in self.may_receive():
            said = self.transcript.describe(message)
            raise Breach(f"{said} was sent to {self.name}, whose role may not receive it", "HSK-13")

    def _check_numbers(self, message: Message) -> None:
        is_outside = message.kind in _OUTSIDE or (message.kind == "error" and (message["fatal"] or not self.is_open))
        said = self.transcript.describe(message)
        if is_outside and message.seq:
            clause = "ERR-9" if message.kind == "error" else "SES-1"
            raise Breach(f"{said} has seq {message.seq}; it stands outside the sequence and has 0", clause)
        if not is_outside and self.is_open and message.seq not in range(1, self.received_seq + 2):
            clause = "ERR-9" if message.kind == "error" and not message.seq else self.law_of_numbers
            expected = self.received_seq + 1
            raise Breach(f"{said} has seq {message.seq}; the next of this session is {expected}", clause)
        last = max(self.sent_seq, self.said_seq)
        if message.ack > last:
            raise Breach(f"{said} acknowledges {message.ack}, and {last} was the last sent", "SES-3")

    # ------------------------------------------------------------ looking

    def show_life(self) -> None:
        self._nonce += 1
        self.send("ping", nonce=OWN_NONCES + self._nonce)

    def fence(self, seconds: float = ANSWER_SECONDS, clause: str = "") -> Message:
        """Afterwards everything that this peer's messages have caused to it is in `inbox` (LIV-4)."""
        self._nonce += 1
        nonce = FENCE_NONCES + self._nonce
        seq = self.send("ping", nonce=nonce)
        if not self.pump.until(lambda: nonce in self._pongs or not self.is_open, seconds):
            raise Breach(f"no Pong came to {self.name} within {seconds:g} s", clause or "LIV-4")
        if nonce not in self._pongs:
            raise Breach(f"{self.name} lost its session instead of getting a Pong: {self.last_words()}", clause)
        pong = self._pongs.pop(nonce)
        if pong.ack < seq:
            raise Breach(f"the Pong acknowledges {pong.ack}, and its Ping was {seq}", "SES-3")
        return pong

    def has_pong(self, nonce: int) -> bool:
        return nonce in self._pongs

    def last_words(self) -> str:
        return self.transcript.describe(self.inbox[-1]) if self.inbox else "without a word"

    def expect(self, *kinds: str, clause: str = "", seconds: float = ANSWER_SECONDS, what: str = "") -> Message:
        """The first message of these kinds that nobody has looked at, waited for if need be."""

        def first() -> Message | None:
            return next((message for message in self.inbox if message.kind in kinds), None)

        self.pump.until(lambda: first() is not None or self._is_over(kinds), seconds)
        found = first()
        if found is None:
            instead = f"; what came: {self.last_words()}" if self.inbox else ""
            raise Breach(f"{self.name} waited for {what or ' or '.join(kinds)}, and none came{instead}", clause)
        self.inbox.remove(found)
        return found

    def _is_over(self, kinds: Sequence[str]) -> bool:
        """A fatal Error is the last word on a socket: whoever waits for something else need not go on."""
        return any(message.kind == "error" and message["fatal"] for message in self.inbox)

    def take(self, kind: str) -> list[Message]:
        """All messages of this kind that have come and that nobody has looked at."""
        found = [message for message in self.inbox if message.kind == kind]
        self.inbox = [message for message in self.inbox if message.kind != kind]
        return found

    def expect_error(
        self,
        *codes: int,
        ref_seq: int | None = None,
        fatal: bool | None = None,
        clause: str = "",
        seconds: float = ANSWER_SECONDS,
    ) -> Message:
        """The next Error; its code is one of these."""
        names = " or ".join(map(code_name, codes))
        error = self.expect("error", "reject", clause=clause, seconds=seconds, what=f"Error {names}")
        said = self.transcript.describe(error)
        if error.kind == "reject" or error["code"] not in codes:
            raise Breach(f"{self.name} was sent {said}; expected Error {names}", clause)
        if fatal is not None and error["fatal"] != fatal:
            raise Breach(f"{self.name} was sent {said}; it must{'' if fatal else ' not'} be fatal", clause)
        if ref_seq is not None and error["refSeq"] != ref_seq:
            raise Breach(f"{self.name} was sent {said}; its refSeq must be {ref_seq}", "ERR-1")
        return error

    def expect_nothing(self, why: str = "", clause: str = "") -> None:
        """Nothing that came is unaccounted for. Say it after a fence."""
        for message in self.inbox:
            because = f": {why}" if why else ""
            said = self.transcript.describe(message)
            raise Breach(f"{self.name} was sent {said}, and nothing was due{because}", clause)

    def bye(self, code: int = CODES.OK) -> None:
        if self.is_open:
            self.send("bye", code=code)
            self.is_open = False


def _as_received(message: Message, frames: Sequence[bytes]) -> Message:
    """With defaults written out; as it was meant where nobody can read it."""
    try:
        return decode(frames)
    except Unreadable:
        return message
