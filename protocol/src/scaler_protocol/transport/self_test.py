"""A server with keys dials itself without a key and with a wrong one, and ends if either gets in. (HSK-34)

A mistake in configuration, a build of libzmq without CURVE or a wrong option of ours could otherwise leave a port open
without a sign. Both dialers only do the ZMTP handshake. The server does not wait for them, but looks at them while it
works.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import zmq

from scaler_protocol.addresses import Address
from scaler_protocol.errors import ScalerError
from scaler_protocol.keys import new_secret
from scaler_protocol.keys.derivation import public_key
from scaler_protocol.transport.context import zmq_context
from scaler_protocol.transport.handshakes import HandshakeWatch

_BOUND_SECONDS = 10.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}

_logger = logging.getLogger("scaler.transport")


class FenceError(ScalerError):
    """This server lets in dialers without a key."""


class SelfTest:
    def __init__(self, address: Address, now: float) -> None:
        self._address = address
        self._until = now + _BOUND_SECONDS
        where = str(replace(address, host=_WILDCARDS.get(address.host, address.host)))
        #: those that have not been refused yet
        self._dialers: dict[str, tuple[zmq.Socket[bytes], HandshakeWatch]] = {}
        try:
            for kind in ("no key", "a wrong key"):
                self._dialers[kind] = _dialed(where, is_curve=kind != "no key")
        except (zmq.ZMQError, OSError) as error:  # such as: no descriptor is left
            _logger.warning("whether %s refuses strangers could not be tried: %s", address, error)
            self.close()

    @property
    def is_over(self) -> bool:
        return not self._dialers

    def look(self, now: float) -> None:
        """Raises FenceError, after a critical line in the log, if one of the dialers was let in."""
        for kind, (socket, watch) in list(self._dialers.items()):
            watch.look()
            if watch.successes:
                self.close()
                text = (
                    f"the server at {self._address} let in a dialer with {kind}, so its port is open to every "
                    "program. The server ends now. Install pyzmq from a wheel, and report this"
                )
                _logger.critical(text)
                raise FenceError(text)
            if watch.failures:
                _close(socket, watch)
                del self._dialers[kind]
        if self._dialers and now >= self._until:
            _logger.warning("%s has not refused a dialer without key within %g s", self._address, _BOUND_SECONDS)
            self.close()

    def close(self) -> None:
        for socket, watch in self._dialers.values():
            _close(socket, watch)
        self._dialers.clear()


def _dialed(where: str, *, is_curve: bool) -> tuple[zmq.Socket[bytes], HandshakeWatch]:
    socket = zmq_context().socket(zmq.DEALER)
    socket.linger = 0
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    if is_curve:
        secret = new_secret()
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, public_key(secret))
        socket.setsockopt(zmq.CURVE_SERVERKEY, public_key(new_secret()))
    watch = HandshakeWatch(socket)
    socket.connect(where)
    return socket, watch


def _close(socket: zmq.Socket[bytes], watch: HandshakeWatch) -> None:
    watch.close()
    socket.close(0)
