"""Whether the connection of a dialer's socket was refused, or has broken: libzmq mends it in silence. (HSK-39)

With one server there is nothing better to do than to let libzmq dial on until it is back. With several, another one may
serve already. So a dialer with several addresses looks at the events of its socket now and then.
"""

from __future__ import annotations

import itertools

import zmq

#: One refusal may be that of a server which is just being started.
_ENOUGH_REFUSALS = 2
_EVENTS = int(
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_EVENTS_A_LOOK = 100
_numbers = itertools.count(1)


class CutWatch:
    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._watched = socket
        where = f"inproc://scaler-cuts-{next(_numbers)}"
        socket.monitor(where, _EVENTS)
        self._events = socket.context.socket(zmq.PAIR)
        self._events.linger = 0
        self._events.connect(where)
        self._refusals = 0
        #: it was reached, and what comes of that has other reasons
        self.was_connected = False
        self.is_cut = False

    @property
    def is_refused(self) -> bool:
        return self._refusals >= _ENOUGH_REFUSALS and not self.was_connected

    def look(self) -> None:
        for _ in range(_EVENTS_A_LOOK):
            try:
                event = self._events.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                return
            kind = int.from_bytes(event[:2], "little")
            if kind == zmq.EVENT_CONNECT_RETRIED:
                self._refusals += 1
            elif kind == zmq.EVENT_CONNECTED:
                self.was_connected = True
            else:
                self.is_cut = True

    def close(self) -> None:
        if not self._watched.closed:
            self._watched.disable_monitor()
        self._events.close(0)
