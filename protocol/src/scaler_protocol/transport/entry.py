"""What a dialer shows to be let in, and what it finds out when it is not. (FRM-15, FRM-16)"""

from __future__ import annotations

import logging
import math

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

_LONGEST_LOOK_SECONDS = 0.5

_logger = logging.getLogger("scaler.transport")


class Entry:
    def __init__(self, address: Address, shown: Pass | None) -> None:
        self._address = address
        self.shown = shown
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
        if isinstance(carrier, ZeroMqDealer):
            self._carrier = carrier
            self._pause_seconds = LOOK_SECONDS
            self.look_at = now + PATIENCE_SECONDS

    def admitted(self) -> None:
        self._stop_watching()
        self._first_key += self._failed_keys
        self._failed_keys = 0

    def renew(self) -> bool:
        """Read the file of the key again. Whether it has other keys of the servers now."""
        if self.shown is None:
            return False
        before, self.shown = self.shown, renewed(self.shown)
        if self.shown.server_keys == before.server_keys:
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
        self._is_counting = False
        if self._greeting is not None:
            self._greeting.close()
            self._greeting = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
