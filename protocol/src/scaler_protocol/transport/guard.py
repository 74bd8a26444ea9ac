"""The keys of a listening server while it runs (SES-31, SES-32, SEC-20, HSK-34).

The key file, and the list of revoked tickets beside it, are looked at each heartbeat, and sessions that they no longer
admit end. Soon after its start, and after it listens with another key, the server also tries whether strangers are
refused.
"""

from __future__ import annotations

import logging
import math

import zmq

from scaler_protocol.addresses import Address
from scaler_protocol.keys import KeyWatch, RuntimeFile
from scaler_protocol.session import SessionServer
from scaler_protocol.transport import curve
from scaler_protocol.transport.door import Door
from scaler_protocol.transport.self_test import SelfTest

#: After the start: a server that is still coming up has better things to do.
_TEST_AFTER_SECONDS = 0.3
#: Between two looks at what libzmq does in the background.
_SOON_SECONDS = 0.05
_BIND_SECONDS = 5.0

_logger = logging.getLogger("scaler.transport")


class Guard:
    """Does nothing for a server without keys."""

    def __init__(self, socket: zmq.Socket[bytes], address: Address, server: SessionServer, door: Door) -> None:
        self._socket = socket
        self._door = door
        self._address = address
        self._server = server
        #: where it listens besides
        self._further: list[Address] = []
        self._keys: KeyWatch | None = None
        self._files: list[RuntimeFile] = []
        self._test: SelfTest | None = None
        #: when to begin with the test, or to look at it
        self._test_at = -math.inf
        self._review_at = -math.inf
        #: where the socket is to listen again
        self._unbound: list[Address] = []
        #: when it was unbound there, to be bound with other keys once libzmq has given the ports back
        self._unbound_at = math.inf
        self.look_at = math.inf
        keyring = server.admission.keyring
        if keyring is not None:
            self.look_at = -math.inf
            self._keys = KeyWatch(keyring)
            #: the keys whose pair is listened with, and that are in the files for dialers of this user
            self._in_use = keyring
            # Programs may read the file before this server does, and show a ticket by a key that is new there.
            server.admission.reread = self._read_keys
            self._tell(address)

    def listens_also(self, address: Address) -> None:
        self._further.append(address)
        self._tell(address)

    def _tell(self, address: Address) -> None:
        """Dialers of this user find the key by the address."""
        keyring = self._server.admission.keyring
        if keyring is not None:
            self._files.append(RuntimeFile(str(address)))
            self._files[-1].write(keyring)

    def look(self, now: float) -> None:
        if self._unbound_at < math.inf:
            self._bind(now)
        if now >= self._review_at:
            self._review_at = now + self._server.terms.timers.heartbeat_seconds
            self._review(now)
        if now >= self._test_at:
            self._try_fence(now)
        bind_at = math.inf if self._unbound_at == math.inf else now + _SOON_SECONDS
        self.look_at = min(self._review_at, self._test_at, bind_at)

    def close(self) -> None:
        self._end_test()
        for file in self._files:
            file.remove()

    def _end_test(self) -> None:
        if self._test is not None:
            self._test.close()
        self._test, self._test_at = None, math.inf

    def _try_fence(self, now: float) -> None:
        if self._test_at == -math.inf:
            self._test_at = now + _TEST_AFTER_SECONDS
            return
        if self._test is None:
            self._test = SelfTest(self._address, now)
        self._test.look(now)
        self._test_at = math.inf if self._test.is_over else now + _SOON_SECONDS

    def _review(self, now: float) -> None:
        assert self._keys is not None, "only a server with keys is looked at"
        curve.check_handler(self._socket.context)
        self._read_keys()
        before, keyring = self._in_use, self._keys.keyring
        if keyring is not before:
            self._in_use = keyring
            for file in self._files:
                file.write(keyring)
            if keyring.curve_public != before.curve_public:
                self._unbound_at = now
                self._end_test()
                self._unbound = [self._address, *self._further]
                self._door.forget()
                for address in self._unbound:
                    self._socket.unbind(str(address))
                curve.listen_with(self._socket, keyring)
                self._bind(now)
        self._server.review()

    def _read_keys(self) -> bool:
        """Reads the file of the keys, and the list of revoked tickets. Returns whether one has changed: tickets are
        judged by them from then on."""
        assert self._keys is not None, "only a server with keys reads them"
        before = self._keys.keyring
        keyring = self._keys.look()
        if keyring is None:
            return False
        if keyring.keys != before.keys:
            count = len(keyring.keys)
            _logger.info("the keys of %s have changed: tickets of %d are accepted now", self._address, count)
        if keyring.revoked != before.revoked:
            count = len(keyring.revoked)
            _logger.info("the revoked tickets of %s have changed: %d are refused now", self._address, count)
        self._server.admission.use(keyring)
        return True

    def _bind(self, now: float) -> None:
        """libzmq has closed the connections of this socket. Dialers come again, with the new key, and resume."""
        while self._unbound:
            try:
                self._socket.bind(str(self._unbound[0]))
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE:
                    raise
                if now - self._unbound_at > _BIND_SECONDS:
                    address = self._unbound[0]
                    _logger.error("%s cannot be listened at with its new key: another program has taken it", address)
                    self._unbound_at = now
                return
            del self._unbound[0]
        self._unbound_at = math.inf
        self._test_at = -math.inf  # the fence was raised anew
