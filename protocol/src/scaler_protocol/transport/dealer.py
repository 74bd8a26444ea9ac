"""The dialer's connection, or rather one after another: each dial gets a new one (FRM-3, LAN-2).

Single-threaded and non-blocking, driven like RouterEndpoint: `poll` when the descriptor is readable or `next_deadline`
has come, handle the events, `settle`, and poll again before waiting when that returned True.

The contract about descriptors: `fileno()` is another one when `generation` has risen, which happens only inside `poll`.
The one before stays open until the next `poll`, so that a loop can take it out of its poller first.

Which way: the local lane where there is one, else ZeroMQ, which waits by itself until the server is up. A dialer
that has been welcomed that way may find the lane there by then, and moves to it as a session moves after any fault. One
that was not welcomed on the lane, because another program listens there or none any more, goes the other way next.

Whereto: of several addresses the one that has welcomed us last, and after a dial without a Welcome the next. (HSK-39)
"""

from __future__ import annotations

import logging
from dataclasses import replace

import zmq

from scaler_protocol.addresses import Address, AddressError, joined_addresses, parse_addresses
from scaler_protocol.codec import CodecError, decode
from scaler_protocol.codes import BAD_FRAMING, TOO_LARGE, UNAUTHORIZED
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Message, Reject
from scaler_protocol.session import SessionDialer, SessionEvent
from scaler_protocol.session.dialer_states import AT_REST, AWAITS_ANSWER
from scaler_protocol.transport import sockets
from scaler_protocol.transport.entry import Entry
from scaler_protocol.transport.lane_dealer import LaneDealer
from scaler_protocol.transport.zeromq import ZeroMqDealer

Carrier = LaneDealer | ZeroMqDealer

_logger = logging.getLogger("scaler.transport")

#: So often a lane is tried that does not answer, before the session stays with ZeroMQ until its next dial.
_MOST_LANE_FAILURES = 2


class DealerEndpoint:
    def __init__(self, address: str, dialer: SessionDialer, shown: Pass | None = None) -> None:
        """`address` may be a list. `shown` is what the server asks for; None for a server without keys."""
        #: the first is the one that is dialed
        self._addresses = parse_addresses(address)
        self._dialer = dialer
        dialer.backoff.address_count = len(self._addresses)
        self._entry = Entry(self._address, shown, len(self._addresses) > 1)
        self._show()
        self._limits = dialer.hello.limits
        #: a session was opened or resumed on the present carrier
        self._was_open = False
        #: dials in a row that were not welcomed on the lane
        self._lane_failures = 0
        #: found for the dial to come
        self._better: LaneDealer | None = None
        #: the next dial is at the same server, with another key or ticket
        self._stays = False
        self._carrier: Carrier = self._connect()
        self._carrier_generation = 1  # the first dial finds its carrier already there
        self.generation = 0
        #: the last carrier, and how long it may hold on to what it has not sent
        self._retired: tuple[Carrier, int] | None = None
        self._told_reason = ""
        self._is_closed = False
        self._is_in_turn = False  # between `poll` and `settle`: what is sent leaves at its end, all together
        self._is_unsettled = True  # something was done since `settle` last found nothing left to do
        self._deadline: float | None = None
        self._knows_deadline = False  # it stays the same while nothing is done

    @property
    def _address(self) -> Address:
        return self._addresses[0]

    @property
    def address(self) -> str:
        """Of the server with which there is a session, or that is dialed."""
        return str(self._addresses[0])

    @property
    def addresses(self) -> str:
        """All, as a list that begins with this one."""
        return joined_addresses(self._addresses)

    def fileno(self) -> int:
        return self._carrier.descriptor

    def poll(self, now: float) -> list[SessionEvent]:
        """Read what is there, within a budget, let time pass, and dial when that is due."""
        if self._retired is not None:
            self._close_retired()
        self._is_unsettled = self._is_in_turn = True
        dialer = self._dialer
        dialer.begin(now)
        is_drained = self._drain(now)
        if not self._was_open and dialer.is_open:
            self._opened(now)
        if now >= self._entry.look_at:
            self._look_for_reason(now)
        if dialer.backoff.reason != self._told_reason:
            self._tell_reason(dialer.backoff.reason)
        dialer.expire(now, is_drained)
        if dialer.generation != self.generation:
            self._change_carrier(now)
        if dialer.transmissions:
            self._flush()
        return dialer.take_events()

    def send(self, message: Message) -> None:
        """Without a session: dropped. While it is interrupted: kept until it is resumed."""
        self._dialer.send(message)
        self._is_unsettled = True
        if not self._is_in_turn:
            self._flush()

    @property
    def is_acknowledged(self) -> bool:
        """The server has all that was sent."""
        return not any(self._dialer.unacknowledged)

    def ping(self, now: float) -> None:
        """Measure the round trip, though there is no sign that the server is gone."""
        self._dialer.ping(now)
        self._flush()

    def settle(self, now: float, is_eager: bool = False) -> bool:
        """The role is done with its events. True: poll again before waiting. Eager: what came is acknowledged now, as a
        server that waits for it may wish (MON-21)."""
        self._is_in_turn = False
        if not self._is_unsettled:
            return False
        dialer = self._dialer
        dialer.settle(now, is_eager)
        if dialer.transmissions:
            self._flush()
        self._is_unsettled = dialer.has_work or self._carrier.has_input()
        self._knows_deadline = False
        return self._is_unsettled

    def next_deadline(self) -> float | None:
        if self._is_unsettled or not self._knows_deadline:
            deadline, look_at = self._dialer.next_deadline(), self._entry.look_at
            self._deadline = deadline if deadline is None or deadline < look_at else look_at
            self._knows_deadline = True
        return self._deadline

    def bye(self, code: int = 0, text: str = "") -> None:
        """Our goodbye: `Lost` (orderly) comes with the next poll, then nothing until `redial`."""
        self._is_unsettled = True
        self._dialer.bye(code, text)
        self._flush()

    def redial(self) -> None:
        """After `Lost` or `Rejected`: begin a new session with the next poll. Nothing, and cheap, in a session: a link
        says it for each operation. The file of the key is read for a new session only."""
        self._is_unsettled = True
        if self._dialer.state in AT_REST:
            self._entry.renew()
            self._show()
        self._dialer.redial()

    def successor(self, dialer: SessionDialer) -> DealerEndpoint:
        """Returns an endpoint for another session with the same servers, which shows what the key file holds now."""
        self._entry.renew()
        return DealerEndpoint(self.addresses, dialer, self._entry.shown)

    def remember(self, generation: int) -> None:
        """For the next Hello: what the scheduler has told since its Welcome. (HSK-35)"""
        hello = self._dialer.hello
        self._dialer.hello = replace(hello, generation=max(hello.generation, generation))

    def close(self) -> None:
        """Does not wait, except on a lane for a server that is slow to read: a goodbye gets a bounded time."""
        if self._is_closed:
            return
        self._is_closed = True
        self.bye()
        self._entry.close()
        self._close_retired()
        self._carrier.close(sockets.LINGER_MILLISECONDS)

    @property
    def is_open(self) -> bool:
        return self._dialer.is_open

    @property
    def incarnation(self) -> int:
        """Of the last Hello."""
        return self._dialer.hello.incarnation

    @property
    def waits_because(self) -> str:
        """Why the server has no session for us now, in its own words; empty if it has not said. The dialer tries again
        by itself. (ERR-10, ERR-11)"""
        return self._dialer.backoff.reason

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """Bytes and messages that were sent and are not acknowledged: what a role that keeps a window looks at."""
        return self._dialer.unacknowledged

    @property
    def round_trip_seconds(self) -> float:
        """From the last Ping that was answered to its Pong; zero before the first."""
        return self._dialer.round_trip_seconds

    @property
    def sent_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._dialer.sent.items()}

    @property
    def received_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._dialer.received.items()}

    @property
    def rejected_count(self) -> int:
        return self._dialer.rejected_count

    # ------------------------------------------------------------ dialing

    def _connect(self) -> Carrier:
        lane = self._lane() if self._lane_failures == 0 else None
        return lane or self._entry.dial(self._limits)

    def _lane(self) -> LaneDealer | None:
        return LaneDealer.to(self._address, self._limits, self._entry.has_keys)

    def _show(self) -> None:
        shown = self._entry.shown
        if shown is not None and self._dialer.hello.credential != shown.ticket:
            self._dialer.hello = replace(self._dialer.hello, credential=shown.ticket)

    def _tell_reason(self, reason: str) -> None:
        """Once, however often the server says it."""
        self._told_reason = reason
        if reason:
            _logger.info("no session with %s: %s; trying again", self.address, reason)

    def _look_for_reason(self, now: float) -> None:
        """There is no Welcome yet: may be because the server does not let us in, or is gone."""
        if self._entry.has_no_line(now, self._dialer.is_open):
            self._dialer.disconnected(now)
            return
        if self._entry.is_reached:
            self._entry.is_reached = False  # it is told once for each connection: a mute server is left all the same
            self._dialer.reached(now)
        if now < self._entry.look_at:
            return
        if self._dialer.state not in AWAITS_ANSWER:
            self._entry.close()
            return
        has_another_key, reason = self._entry.look(now)
        if reason:
            self._dialer.refuse(UNAUTHORIZED, reason)
        elif has_another_key:
            self._dial_anew(now)

    def _opened(self, now: float) -> None:
        """Over ZeroMQ: is there a lane now, or was the server only slow to answer there?"""
        self._was_open = True
        self._entry.admitted(self._carrier, now)
        if type(self._carrier) is LaneDealer or self._lane_failures >= _MOST_LANE_FAILURES:
            self._lane_failures = 0
            return
        self._better = self._lane()
        if self._better is not None:
            self._dialer.move(now)

    def _change_carrier(self, now: float) -> None:
        self.generation = self._dialer.generation
        is_first = self.generation == self._carrier_generation
        if is_first and not self._carrier.is_closed:
            self._entry.began(self._carrier, now)
            return
        self._carrier_generation = self.generation
        old = self._carrier
        if type(old) is LaneDealer and not self._was_open and not is_first:
            # Who closes it does not want us there; who is silent may be busy.
            self._lane_failures += _MOST_LANE_FAILURES if old.is_closed else 1
        if not self._was_open and not is_first and not self._stays and len(self._addresses) > 1:
            self._turn()
        self._stays = False
        better, self._better = self._better, None
        try:
            self._carrier = better or self._connect()
        except (AddressError, OSError, zmq.ZMQError) as error:
            # Such as: no descriptor is left. The next dial may find one; until then the old carrier stays, unused.
            _logger.warning("no connection to %s could be begun: %s", self.address, error)
            self._dialer.take_transmissions()
            self._dialer.disconnected(now)
            return
        # libzmq aborts a process that closes a socket at once, in the middle of a message of two frames, when its
        # connection breaks. Without a session there is nothing but a Hello, of one frame: a late one is of no use.
        may_linger = self._was_open and type(old) is ZeroMqDealer
        self._retired = old, sockets.LINGER_MILLISECONDS if may_linger else 0
        self._was_open = False
        self._entry.began(self._carrier, now)

    def _turn(self) -> None:
        """To the next server. What was found out about the last one says nothing of this one."""
        self._addresses = (*self._addresses[1:], self._addresses[0])
        self._lane_failures = 0
        self._better = None
        self._entry.turn_to(self._address)

    def _close_retired(self) -> None:
        if self._retired is not None:
            carrier, linger_milliseconds = self._retired
            self._retired = None
            carrier.close(linger_milliseconds)

    # ------------------------------------------------------------ messages

    def _drain(self, now: float) -> bool:
        """Whether nothing is left to read."""
        carrier = self._carrier
        limits = self._limits
        receive = self._dialer.receive
        for envelope, payload, size, has_more in carrier.messages():
            if envelope is None or has_more:
                self._refuse_frames(size, has_more, now)
                continue
            try:
                received = decode(envelope, payload, limits)
            except CodecError as error:
                self._dialer.reject(error.code, error.text, error.clause, error.seq, now)
                continue
            if not self._was_open and type(received.message) is Reject:
                if self._dials_anew(received.message, now):
                    continue
                received = received._replace(message=self._told(received.message))
            receive(received, size, now)
        if carrier.is_closed:
            self._dialer.disconnected(now)
        return carrier.is_drained

    def _dials_anew(self, reject: Reject, now: float) -> bool:
        """Dials once more if the server refuses the ticket and the file of the key has another one by now. So a key
        that is rotated, or a ticket that is renewed, ends nothing that is pending. (HSK-46)"""
        if reject.code != UNAUTHORIZED or not self._entry.renew():
            return False
        self._dial_anew(now)
        return True

    def _dial_anew(self, now: float) -> None:
        self._show()
        self._stays = True
        self._dialer.disconnected(now)

    def _told(self, reject: Reject) -> Reject:
        """With the place where the key was found, which the server cannot know."""
        shown = self._entry.shown
        if reject.code != UNAUTHORIZED or shown is None:
            return reject
        where = f"the key in {shown.origin or 'memory'} was refused by the server at {self.address}"
        return replace(reject, text=f"{where}: {reject.text}")

    def _refuse_frames(self, size: int, has_more: bool, now: float) -> None:
        if has_more:
            self._dialer.reject(BAD_FRAMING, "a message has at most one payload frame", "FRM-2", 0, now)
        else:
            text = f"an envelope has at most {self._limits.envelope_bytes} bytes and this one has {size}"
            self._dialer.reject(TOO_LARGE, text, "FRM-4", 0, now)

    def _flush(self) -> None:
        if self._dialer.transmissions:
            self._is_unsettled = True
            self._carrier.send(self._dialer.take_transmissions())
