"""Why a dialer is not let in: libzmq is silent about it, dials again and again, and so a wrong key would look like a
server that is down. (FRM-16)

Theory of operation. When no Welcome has come for a moment, the endpoint opens a `HandshakeWatch` on its socket: a
monitor of libzmq, which tells of each handshake that breaks off. Such an event gives no reason. So a `Greeting` asks
the server for its mechanism, by the first bytes with which every ZMTP connection begins. If the mechanism is another
than ours, that is the reason. If both are CURVE and handshakes break off all the same, the key may be wrong. But a
server that has no descriptor left, or too many connections without a session, closes connections too (FRM-17). So the
greeting's connection stays open meanwhile. It shows no key: if the server has closed it as well, keys are not the
reason, and all is asked anew. While all is well none of this happens.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket as network
import threading
from collections.abc import Iterator

import zmq

from scaler_protocol import waits
from scaler_protocol.addresses import Address, parse_address
from scaler_protocol.keys import Pass
from scaler_protocol.keys.places import runtime_name

#: Without a Welcome for so long, the watch is opened; and how often it is looked at then.
PATIENCE_SECONDS = 0.1
LOOK_SECONDS = 0.03

#: One may be a server that has just ended.
_ENOUGH_FAILURES = 2
_GREETING_SECONDS = 1.0
FAILED_HANDSHAKES = int(
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_EVENTS_A_LOOK = 100
_numbers = itertools.count(1)

NULL, CURVE = "NULL", "CURVE"

#: What ZMTP 3 begins with: a signature, and the version that the answer waits for. What follows is never sent.
_OUR_GREETING = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03"
_GREETING_BYTES = 64
_MECHANISM = slice(12, 32)


class EventWatch:
    """What libzmq tells of a dialer's socket. A socket has one of these at a time."""

    def __init__(self, socket: zmq.Socket[bytes], events: int) -> None:
        self._watched = socket
        where = f"inproc://scaler-events-{next(_numbers)}"
        socket.monitor(where, events)
        self._events = socket.context.socket(zmq.PAIR)
        self._events.linger = 0
        self._events.connect(where)

    def kinds(self) -> Iterator[int]:
        """Of the events that are there; a bounded number of them at a time."""
        for _ in range(_EVENTS_A_LOOK):
            try:
                event = self._events.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                return
            yield int.from_bytes(event[:2], "little")

    def close(self) -> None:
        if not self._watched.closed:
            self._watched.disable_monitor()
        self._events.close(0)


class HandshakeWatch(EventWatch):
    """Counts the handshakes of a socket that break off."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        super().__init__(socket, FAILED_HANDSHAKES | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self.failures = 0
        self.successes = 0

    def look(self) -> None:
        for kind in self.kinds():
            if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.successes += 1
            else:
                self.failures += 1

    @property
    def has_failed(self) -> bool:
        return self.failures >= _ENOUGH_FAILURES


class Greeting:
    """Asks the server at an address for its mechanism. In a thread of its own, which a name server may keep waiting."""

    def __init__(self, address: Address) -> None:
        self._address = address
        #: the answer; empty when there was none, or none as ZeroMQ gives it
        self.mechanism = ""
        self.is_over = False
        self._lock = waits.Lock()
        self._is_closed = False
        self._held: network.socket | None = None
        threading.Thread(target=self._ask, name="scaler-greeting", daemon=True).start()

    def is_held(self) -> bool:
        """Whether the server has left the connection open, of which it does not know yet whether it has the key."""
        if self._held is None:
            return False
        try:
            self._held.settimeout(0)
            return bool(self._held.recv(1, network.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._held is not None:
                self._held.close()

    def _ask(self) -> None:
        try:
            self._greet()
        except OSError:  # no process listens there
            pass
        except BaseException as error:  # noqa: BLE001 the dialer waits for its end
            logging.getLogger("scaler").warning("a server's mechanism cannot be asked for: %r", error)
        self.is_over = True

    def _greet(self) -> None:
        connection = self._connection()
        mechanism = ""
        try:
            mechanism = _mechanism_at(connection)
        except OSError:
            pass  # it does not answer
        with self._lock:
            if mechanism and not self._is_closed:
                self.mechanism, self._held = mechanism, connection
            else:
                connection.close()

    def _connection(self) -> network.socket:
        address = self._address
        if not address.path:
            return network.create_connection((address.host, address.port), timeout=_GREETING_SECONDS)
        connection = network.socket(network.AF_UNIX)
        connection.settimeout(_GREETING_SECONDS)
        try:
            connection.connect("\0" + address.path[1:] if address.path.startswith("@") else address.path)
        except OSError:
            connection.close()
            raise
        return connection


def _mechanism_at(connection: network.socket) -> str:
    connection.settimeout(_GREETING_SECONDS)
    connection.sendall(_OUR_GREETING)
    answer = b""
    while len(answer) < _GREETING_BYTES and (portion := connection.recv(_GREETING_BYTES - len(answer))):
        answer += portion
    if len(answer) < _GREETING_BYTES or answer[:1] != _OUR_GREETING[:1]:
        return ""
    return answer[_MECHANISM].rstrip(b"\0").decode(errors="replace")


def _what_to_do(shown: Pass, address: Address) -> str:
    """About a key that is another cluster's."""
    ask = "ask its operator for a ticket"
    if not address.is_loopback:
        return f"Copy cluster.key from the machine of its scheduler, or {ask}"
    ask = "if the cluster belongs to another user of this machine, ask that user for a ticket (scaler_key derive)"
    if os.path.basename(shown.origin) == runtime_name(address):
        return f"An earlier server at this address, which was killed, has left that file: remove it; or, {ask}"
    return f"Name the file with its key; or, {ask}"


def reason(mechanism: str, shown: Pass | None, address: str) -> str:
    """Why a server of this mechanism does not let us in, and what to do."""
    if mechanism == CURVE and shown is None:
        return (
            f"the server at {address} wants a key, and this program shows none (insecure): leave --insecure "
            "(insecure=True) out, and copy cluster.key from the machine of its scheduler if it is not found"
        )
    if mechanism == CURVE and shown is not None:
        return (
            f"the key in {shown.origin or 'memory'} is not this cluster's: the server at {address} has another one. "
            f"{_what_to_do(shown, parse_address(address))}"
        )
    if mechanism == NULL and shown is not None:
        return (
            f"the server at {address} speaks without a key (started with --insecure): use insecure=True (--insecure) "
            "if that is meant"
        )
    if mechanism == NULL:
        return ""  # as we do: the fault is another one
    return f"the server at {address} asks for {mechanism!r}, which no server of Scaler does: check the address"
