"""What a dialer shows to be let in, and what it finds out when it is not. (FRM-15, FRM-16)"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import zmq

from scaler_protocol.addresses import Address
from scaler_protocol.keys import Pass, renewed
from scaler_protocol.messages import Limits
from scaler_protocol.transport.handshakes import (
    CURVE,
    LOOK_SECONDS,
    NULL,
    PATIENCE_SECONDS,
    Greeting,
    HandshakeWatch,
    reason,
)
from scaler_protocol.transport.zeromq import ZeroMqDealer

if TYPE_CHECKING:
    from scaler_protocol.transport.cuts import CutWatch

_LONGEST_LOOK_SECONDS = 0.5
#: With several servers, how often the connection is looked at: while a Welcome is awaited, and in a session.
_DIALING_LOOK_SECONDS = 0.03
_OPEN_LOOK_SECONDS = 0.5

_logger = logging.getLogger("scaler.transport")


class Entry:
    def __init__(self, address: Address, shown: Pass | None, has_others: bool = False) -> None:
        """`has_others`: there are other servers to turn to, by `turn_to`."""
        self._address = address
        self.shown = shown
        self._has_others = has_others
        self._cuts: CutWatch | None = None
        self._patient_until = 0.0
        #: with several servers: this one has accepted the connection
        self.is_reached = False
        #: how many of the servers' public keys were no use since the last Welcome
        self._failed_keys = 0
        self._first_key = 0
        #: when to look why there is no Welcome yet
        self.look_at = math.inf
        self._pause_seconds = LOOK_SECONDS
        self._carrier: ZeroMqDealer | None = None
        self._watch: HandshakeWatch | None = None
        self._greeting: Greeting | None = None
        #: the greeting was answered, and handshakes that break off from now on are newer than its connection
        self._is_counting = False

    @property
    def has_keys(self) -> bool:
        return self.shown is not None

    def dial(self, limits: Limits) -> ZeroMqDealer:
        return ZeroMqDealer(self._address, limits, self.shown, self._first_key + self._failed_keys)

    def began(self, carrier: object, now: float) -> None:
        """A Hello is on its way by this carrier."""
        self._stop_watching()
        self.is_reached = False
        if isinstance(carrier, ZeroMqDealer):
            self._carrier = carrier
            self._pause_seconds = LOOK_SECONDS
            self.look_at = self._patient_until = now + PATIENCE_SECONDS
            self._watch_cuts(now, _DIALING_LOOK_SECONDS)

    def admitted(self, carrier: object, now: float) -> None:
        self._stop_watching()
        self._first_key += self._failed_keys
        self._failed_keys = 0
        if isinstance(carrier, ZeroMqDealer):
            self._watch_cuts(now, _OPEN_LOOK_SECONDS)

    def turn_to(self, address: Address) -> None:
        """The next server, which has the same key."""
        self._stop_watching()
        self._address = address
        self._failed_keys = 0

    def has_no_line(self, now: float, is_open: bool) -> bool:
        """With several servers: this one refuses connections, or in a session, its connection has broken. (HSK-39)"""
        if self._cuts is None:
            return False
        self._cuts.look()
        if is_open:
            self.look_at = now + _OPEN_LOOK_SECONDS
            return self._cuts.is_cut
        if self._cuts.is_refused:
            return True
        self.is_reached = self._cuts.was_connected
        if self.is_reached or self._cuts.is_cut or now >= self._patient_until:
            self._stop_watching()  # what keeps the Welcome back is another matter
            self.look_at = max(now, self._patient_until)
        else:
            self.look_at = now + _DIALING_LOOK_SECONDS
        return False

    def _watch_cuts(self, now: float, look_seconds: float) -> None:
        if not self._has_others or self._carrier is None:
            return
        from scaler_protocol.transport.cuts import CutWatch  # here, because most dialers have one address

        try:
            self._cuts = CutWatch(self._carrier.socket)
            self.look_at = now + look_seconds
        except (zmq.ZMQError, OSError) as error:  # no descriptor is left
            _logger.debug("the connection with %s cannot be watched: %s", self._address, error)

    def renew(self) -> bool:
        """Reads the file of the key again. Returns whether it has another ticket, or other keys of the servers, now."""
        if self.shown is None:
            return False
        before, self.shown = self.shown, renewed(self.shown)
        if (self.shown.ticket, self.shown.server_keys) == (before.ticket, before.server_keys):
            return False
        self._first_key = self._failed_keys = 0
        return True

    def look(self, now: float) -> tuple[bool, str]:
        """Whether to dial anew, with another of the servers' keys; and why there is no use in dialing again, if there
        is none."""
        if self._watch is None and not self._begin():
            return False, ""
        assert self._watch is not None and self._greeting is not None, "they were begun"
        self._watch.look()
        mechanism = self._mechanism()
        wants = NULL if self.shown is None else CURVE
        if mechanism and mechanism != wants:
            self._stop_watching()
            return False, reason(mechanism, self.shown, str(self._address))
        if self._watch.has_failed and mechanism == CURVE and not self._greeting.is_held():
            self._ask_again()
        elif self._watch.has_failed and mechanism == CURVE:
            self._stop_watching()
            self._failed_keys += 1
            assert self.shown is not None, "what it wants is CURVE"
            if self._failed_keys < len(self.shown.server_keys) or self.renew():
                return True, ""
            return False, reason(mechanism, self.shown, str(self._address))
        self.look_at = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_LOOK_SECONDS)
        return False, ""

    def close(self) -> None:
        self._stop_watching()

    def _begin(self) -> bool:
        assert self._carrier is not None, "there is nothing to look at before a dial"
        try:
            self._watch = HandshakeWatch(self._carrier.socket)
            self._greeting = Greeting(self._address)
        except (zmq.ZMQError, OSError, RuntimeError) as error:  # no descriptor or no thread is left
            _logger.debug("the handshakes with %s cannot be watched: %s", self._address, error)
            self._stop_watching()
            return False
        return True

    def _mechanism(self) -> str:
        """Of the server. Empty: there is none that answers, or it has not answered yet."""
        assert self._watch is not None and self._greeting is not None, "they begin together"
        if not self._greeting.is_over:
            return ""
        mechanism = self._greeting.mechanism
        if not mechanism and self._watch.failures:
            # It was not up yet, or is a proxy whose server is not.
            self._ask_again()
        elif mechanism and not self._is_counting:
            # What broke off before may be older than the greeting's connection, which then says nothing about it.
            self._is_counting = True
            self._watch.failures = 0
        return mechanism

    def _ask_again(self) -> None:
        assert self._watch is not None and self._greeting is not None, "they begin together"
        self._watch.failures = 0
        self._pause_seconds = LOOK_SECONDS
        self._is_counting = False
        self._greeting.close()
        self._greeting = Greeting(self._address)

    def _stop_watching(self) -> None:
        self.look_at = math.inf
        if self._cuts is not None:
            self._cuts.close()
            self._cuts = None
        self._is_counting = False
        if self._greeting is not None:
            self._greeting.close()
            self._greeting = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
