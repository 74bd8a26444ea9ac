"""TCP connections of libzmq: how much has come by them and when, and how to end one at once. (LIM-18, LIV-15)

libzmq hands over whole messages only. What it keeps of a message that is not whole, such as a step of a handshake with
a length of a hundred megabytes, is not seen by its user. The kernel has counted it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys

from scaler_protocol.session.vanishing import LineFacts

IS_COUNTED = sys.platform == "linux"

#: `tcpi_bytes_received` of the kernel's `struct tcp_info`, since Linux 4.1.
_COUNT = struct.Struct("=128xQ")
_TCP_RTO_MAX_MS = 44  # Linux 6.15; no constant of Python's yet
_TCP_THIN_LINEAR_TIMEOUTS = 16
_ASK_SECONDS = 1
_MOST_QUESTIONS = 127  # the most that the system takes: the user timeout comes first
#: For so long it goes on asking on a connection that gives no sign. The session is over long before.
_PATIENCE_SECONDS = 120
_ESTABLISHED = 1
#: The first fields of `struct tcp_info`: state, retransmits, probes, and from byte 44 on when data were sent and
#: acknowledgements and data received, in milliseconds; the round trip at byte 68 in microseconds.
_INFO = struct.Struct("=B x B B 40x I I I I 8x I")
_TCP_WINDOW_CLAMP = 10
_LARGEST_WINDOW = 1 << 30
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


def resident_bytes() -> int:
    """Memory of this process."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no descriptor is left
        return 0


def reset(connection: socket.socket) -> None:
    """End it, and drop what has come by it and is not read. After a `shutdown` libzmq would read the megabytes that the
    kernel still has. Raises OSError."""
    if sys.platform == "linux" and connection.family != socket.AF_UNIX:
        # Linux: to connect a connected socket to no address is to reset it. Python's `connect` has no words for this.
        if ctypes.CDLL(None, use_errno=True).connect(connection.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    else:
        connection.shutdown(socket.SHUT_RDWR)


def hold(connection: socket.socket) -> None:
    """Takes no more from its peer than is on its way, until `let_go`: the window shrinks to a kilobyte, and the peer
    sees a slow reader. Nothing is lost. Raises OSError."""
    _clamp(connection, 1)


def let_go(connection: socket.socket) -> None:
    """Raises OSError."""
    _clamp(connection, _LARGEST_WINDOW)


def _clamp(connection: socket.socket, window: int) -> None:
    if IS_COUNTED and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, window)


def ask_often(line: socket.socket) -> None:
    """The system is to ask each second whether the other one is there."""
    if not IS_COUNTED or line.family not in (socket.AF_INET, socket.AF_INET6):
        return
    level = socket.IPPROTO_TCP
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.setsockopt(level, socket.TCP_KEEPIDLE, _ASK_SECONDS)
    line.setsockopt(level, socket.TCP_KEEPINTVL, _ASK_SECONDS)
    line.setsockopt(level, socket.TCP_KEEPCNT, _MOST_QUESTIONS)
    # Otherwise fifteen questions, one a second, would be the last.
    line.setsockopt(level, socket.TCP_USER_TIMEOUT, _PATIENCE_SECONDS * 1000)
    try:
        line.setsockopt(level, _TCP_RTO_MAX_MS, _ASK_SECONDS * 1000)
    except OSError:
        # With data under way an older system asks after pauses that double: the first six do not, at least.
        line.setsockopt(level, _TCP_THIN_LINEAR_TIMEOUTS, 1)


def facts_of(line: socket.socket) -> LineFacts | None:
    """None: not known, because it is no TCP connection, or one that is closing."""
    if not IS_COUNTED or line.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    info = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    if len(info) < _INFO.size:
        return None
    state, retransmits, probes, _, _, data_ms, acknowledgement_ms, round_trip_us = _INFO.unpack(info)
    if state != _ESTABLISHED:
        return None
    return LineFacts(min(data_ms, acknowledgement_ms) / 1000, retransmits + probes, round_trip_us / 1e6)


def host_of(line: socket.socket) -> str:
    """The address of the other end. Empty: it is this host, or not known."""
    if line.family not in (socket.AF_INET, socket.AF_INET6):
        return ""
    try:
        other, own = line.getpeername()[0], line.getsockname()[0]
    except OSError:  # it is closing
        return ""
    return "" if other == own else str(other)
