"""TCP connections of libzmq, by their descriptors: how much has come by them, and how to end one at once. (LIM-18)

libzmq hands over whole messages only. What it keeps of a message that is not whole, such as a step of a handshake with
a length of a hundred megabytes, is not seen by its user. The kernel has counted it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys

IS_COUNTED = sys.platform == "linux"

#: `tcpi_bytes_received` of the kernel's `struct tcp_info`, since Linux 4.1.
_COUNT = struct.Struct("=128xQ")
#: A `struct sockaddr` of the family AF_UNSPEC.
_NO_ADDRESS = bytes(16)


def received_bytes(descriptor: int) -> int:
    """By the TCP connection that has this number. Zero: there is none, or the kernel does not count."""
    if sys.platform != "linux":
        return 0
    try:
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=descriptor)
    except OSError:
        return 0
    try:
        told = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNT.size)
    except OSError:  # the number has become that of a socket of another kind, or of a file
        return 0
    finally:
        borrowed.detach()
    return int(_COUNT.unpack(told)[0]) if len(told) == _COUNT.size else 0


def reset(connection: socket.socket) -> None:
    """End it, and drop what has come by it and is not read. After a `shutdown` libzmq would read the megabytes that the
    kernel still has. Raises OSError."""
    if sys.platform == "linux" and connection.family != socket.AF_UNIX:
        # Linux: to connect a connected socket to no address is to reset it. Python's `connect` has no words for this.
        if ctypes.CDLL(None, use_errno=True).connect(connection.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    else:
        connection.shutdown(socket.SHUT_RDWR)
