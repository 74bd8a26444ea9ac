"""How our sockets are made, and how one message is read from and written to one (FRM).

The options are all set explicitly, because the defaults drop messages, block, or wait for ever at exit.
"""

from __future__ import annotations

import errno
import socket as unix
from collections.abc import Callable, Sequence

import zmq

from scaler_protocol.addresses import Address, AddressError, bindable
from scaler_protocol.ids import new_routing_id
from scaler_protocol.keys import Keyring, Pass
from scaler_protocol.messages import Buffer, Limits
from scaler_protocol.session.channel import Frames
from scaler_protocol.transport import curve
from scaler_protocol.transport.context import Socket, zmq_context
from scaler_protocol.transport.descriptors import exhaustion_told

Recv = Callable[..., object]

#: As plain numbers: arithmetic with pyzmq's flags is a Python call each time, several for every message.
NOBLOCK = int(zmq.NOBLOCK)
NOBLOCK_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_POLLIN = int(zmq.POLLIN)

#: Below this a copy is cheaper than what it takes to avoid one.
ZERO_COPY_BYTES = 65_536

#: More are never legal in version 1; a few more than that are read, so that the complaint can name the message.
PAYLOAD_FRAMES_READ = 4

#: How long a closing socket may hold on to what it has not sent: enough for a goodbye.
LINGER_MILLISECONDS = 1_000

_KEEPALIVE_IDLE_SECONDS = 60
_KEEPALIVE_INTERVAL_SECONDS = 20
_KEEPALIVE_COUNT = 3
_HANDSHAKE_MILLISECONDS = 10_000
#: Doubling up to the second number, as long as a dial lasts. What starts together, such as a local cluster, finds its
#: scheduler within the second number of its listening; from 100 to 1,000, which is usual, it was found at 700.
_PORT_TRIES = 16
_RECONNECT_MILLISECONDS = 20
_RECONNECT_MAX_MILLISECONDS = 200


def bound_router(
    address: Address,
    limits: Limits,
    keyring: Keyring | None = None,
    watch: Callable[[Socket], None] = lambda socket: None,
) -> Socket:
    """A listening socket, or AddressError; `watch` is called with it before it listens."""
    where = bindable(address)
    _refuse_taken_path(address)
    socket = _new_socket(zmq.ROUTER)
    try:
        _set_common_options(socket, address, limits)
        # A peer that comes back behind a half-open connection takes its routing id over; and sending to one that is
        # not there is an error instead of silence.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.BACKLOG, 1024)
        curve.listen_with(socket, keyring)
        watch(socket)
        _bind(socket, address, where)
    except zmq.ZMQError as error:
        socket.close(linger=0)
        raise AddressError(bind_text(address, error)) from None
    return socket


def connected_dealer(address: Address, limits: Limits, shown: Pass | None = None, attempt: int = 0) -> Socket:
    """A socket with a routing id of its own that connects by itself, now or when the server is up."""
    socket = _new_socket(zmq.DEALER)
    try:
        _set_common_options(socket, address, limits)
        socket.setsockopt(zmq.ROUTING_ID, new_routing_id())
        # Off: the Hello is queued before the connection is up, and nothing ever blocks.
        socket.setsockopt(zmq.IMMEDIATE, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MILLISECONDS)
        curve.dial_with(socket, shown, attempt)
        socket.connect(str(address))
    except zmq.ZMQError as error:
        socket.close(linger=0)
        raise AddressError(f"address {address} cannot be connected to: {zmq.strerror(error.errno or 0)}") from None
    return socket


def bind_also(socket: Socket, address: Address) -> str:
    """Listen at a further address with a socket that listens already; where that is. Raises AddressError."""
    where = bindable(address)
    _refuse_taken_path(address)
    try:
        socket.setsockopt(zmq.IPV6, int(address.is_ipv6))
        _bind(socket, address, where)
    except zmq.ZMQError as error:
        raise AddressError(bind_text(address, error)) from None
    return str(socket.get_string(zmq.LAST_ENDPOINT)).rstrip("\0")


def _bind(socket: Socket, address: Address, where: str) -> None:
    """A port that the system chooses may be another socket's when it is listened at, because sockets that only have an
    address may share it (SO_REUSEADDR). Then another port is asked for."""
    is_chosen = not address.path and address.port == 0
    for _ in range(_PORT_TRIES if is_chosen else 0):
        try:
            socket.bind(where)
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE:
                raise
        else:
            return
    socket.bind(where)


def _new_socket(kind: int) -> Socket:
    with exhaustion_told():
        return zmq_context().socket(kind)


def has_input(socket: Socket) -> bool:
    """Also re-arms the edge-triggered descriptor: ask after the last send, before waiting. (Not by `getsockopt`, which
    makes an Enum of the option's number each time.)"""
    return bool(zmq.zmq_poll([(socket, _POLLIN)], 0))


def read(frame: zmq.Frame, recv: Recv, envelope_limit: int) -> tuple[bytes | None, Sequence[Buffer], int, bool]:
    """The frames of one message from its first on: envelope (None when it is beyond the limit: not even copied),
    payload frames, bytes in all, and whether there are more frames than any peer could mean.

    `recv` per frame is a third of the cost of `recv_multipart`. The envelope is copied to `bytes`, since Cap'n Proto
    needs it aligned; a large payload frame is not copied.
    """
    size = len(frame)
    envelope = frame.bytes if size <= envelope_limit else None
    if not frame.more:
        return envelope, (), size, False
    payload: list[Buffer] = []
    while frame.more:
        if len(payload) == PAYLOAD_FRAMES_READ:
            return envelope, payload, size, True
        frame = recv(NOBLOCK, False)  # type: ignore[assignment]
        frame_size = len(frame)
        size += frame_size
        payload.append(frame.buffer if frame_size >= ZERO_COPY_BYTES else frame.bytes)
    return envelope, payload, size, False


def skip(recv: Recv, frames: int) -> bool:
    """Throw away up to so many frames of a message; whether its end was reached."""
    for _ in range(frames):
        frame: zmq.Frame = recv(NOBLOCK, False)  # type: ignore[assignment]
        if not frame.more:
            return True
    return False


def write(send: Callable[..., object], frames: Frames) -> None:
    """An envelope with, in version 1, at most one payload frame."""
    if len(frames) == 1:
        send(frames[0], NOBLOCK)
        return
    envelope, payload = frames
    send(envelope, NOBLOCK_MORE)
    send(payload, NOBLOCK, len(payload) < ZERO_COPY_BYTES)


def _set_common_options(socket: Socket, address: Address, limits: Limits) -> None:
    # A full queue of messages to send would drop silently (ROUTER) or block (DEALER): the session bounds those queues.
    socket.setsockopt(zmq.SNDHWM, 0)
    # No mark for received messages either. At one, libzmq up to 4.3.5 stops reading, and aborts the process if a PING
    # of ZMTP is among what it has not looked at and the connection breaks. A server bounds what it has not read by what
    # the kernel has counted (FRM-12, LIM-34).
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, LINGER_MILLISECONDS)
    # Above our own limits: those are answered with TOO_LARGE, this one cuts the connection without a word (FRM-13).
    socket.setsockopt(zmq.MAXMSGSIZE, 2 * max(limits.payload_frame_bytes, limits.envelope_bytes))
    socket.setsockopt(zmq.IPV6, int(address.is_ipv6))
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MILLISECONDS)
    # Off: libzmq up to 4.3.5 aborts the process when a heartbeat is due on a connection from which it no longer reads
    # and that has broken. Liveness is the session's (LIV-1), and what is queued for a peer that no longer
    # reads is dropped with its connection when its session is over (FRM-17).
    socket.setsockopt(zmq.HEARTBEAT_IVL, 0)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _KEEPALIVE_IDLE_SECONDS)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, _KEEPALIVE_INTERVAL_SECONDS)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, _KEEPALIVE_COUNT)


def _refuse_taken_path(address: Address) -> None:
    """libzmq removes the file of an ipc address before it binds, also when a living server listens there."""
    if not address.path or address.path.startswith("@"):
        return
    with unix.socket(unix.AF_UNIX, unix.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address.path)
        except OSError:
            return
    raise AddressError(_taken_text(address))


def bind_text(address: Address, error: zmq.ZMQError) -> str:
    """Why it cannot be listened there, and what to do."""
    number = error.errno
    if number == errno.EADDRINUSE or number == zmq.EADDRINUSE:
        return _taken_text(address)
    if number in (errno.EADDRNOTAVAIL, zmq.EADDRNOTAVAIL, errno.ENODEV):
        return f"address {address} is not one of this machine: use one that is, 127.0.0.1, or * for all"
    if number == errno.EACCES:
        remedy = (
            "choose another path" if address.path else "ports below 1024 are for administrators, choose a higher one"
        )
        return f"address {address} may not be listened on by this user: {remedy}"
    if number == errno.ENOENT and address.path:
        return f"address {address} lies in a directory that does not exist: create it first"
    return f"address {address} cannot be listened on: {zmq.strerror(number or 0)}"


def _taken_text(address: Address) -> str:
    return f"address {address} is already in use: stop what is listening there, or choose another one"
