"""Whether the connection of a dialer's socket was refused, or has broken: libzmq mends it in silence. (HSK-39)

With one server there is nothing better to do than to let libzmq dial on until it is back. With several, another one may
serve already. So a dialer with several addresses looks at the events of its socket now and then.
"""

from __future__ import annotations

import zmq

from scaler_protocol.transport.handshakes import FAILED_HANDSHAKES, EventWatch

#: One refusal may be that of a server which is just being started.
_ENOUGH_REFUSALS = 2
_EVENTS = FAILED_HANDSHAKES | int(zmq.EVENT_CONNECTED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_DISCONNECTED)


class CutWatch(EventWatch):
    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        super().__init__(socket, _EVENTS)
        self._refusals = 0
        #: it was reached, and what comes of that has other reasons
        self.was_connected = False
        self.is_cut = False

    @property
    def is_refused(self) -> bool:
        return self._refusals >= _ENOUGH_REFUSALS and not self.was_connected

    def look(self) -> None:
        for kind in self.kinds():
            if kind == zmq.EVENT_CONNECT_RETRIED:
                self._refusals += 1
            elif kind == zmq.EVENT_CONNECTED:
                self.was_connected = True
            else:
                self.is_cut = True
