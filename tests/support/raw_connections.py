"""TCP connections to an endpoint, below ZeroMQ."""

from __future__ import annotations

import socket

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" + bytes(16) + b"\0" + bytes(31)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\6DEALER"


class Silent:
    """A connection that says what it is given, and nothing more."""

    def __init__(self, address: str, said: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        self._socket.sendall(said)
        self._socket.setblocking(False)

    def is_greeted(self) -> bool:
        """The server's greeting is here. libzmq may give a connection up whose peer goes on before."""
        try:
            return len(self._socket.recv(len(GREETING), socket.MSG_PEEK)) == len(GREETING)
        except BlockingIOError:
            return False

    def is_closed(self) -> bool:
        try:
            while self._socket.recv(4096):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        self.close()
        return True

    def send(self, said: bytes) -> int:
        return self._socket.send(said)

    def close(self) -> None:
        self._socket.close()


def through(theirs: socket.socket, ours: socket.socket, size: int) -> None:
    """So many bytes are sent and read."""
    while size:
        sent = theirs.send(bytes(min(size, 1 << 16)))
        size -= sent
        while sent:
            sent -= len(ours.recv(sent))
