"""CURVE on our sockets: which dialers may connect, and with which key each connection was opened. (FRM-14, FRM-15)

libzmq raises the fence: a dialer that does not know the server's public key cannot finish the first step of the
handshake, a server with keys refuses every other mechanism, and so does a dialer with a pass. There is no way from one
mechanism to the other, so nothing between two peers can take the keys away.

libzmq gives the public key of the dialer as the `User-Id` of each frame, if a ZAP handler has answered with that key.
Our handler admits every CURVE key, because the ticket in the Hello decides. The handler is a thread that sleeps in
libzmq, one for each context, and is started with the first listening socket that has keys.
"""

from __future__ import annotations

import logging
import threading

import zmq

from scaler_protocol.errors import ScalerError
from scaler_protocol.keys import Keyring, Pass
from scaler_protocol.keys.derivation import check_curve

_ZAP_ADDRESS = "inproc://zeromq.zap.01"
_ZAP_VERSION = b"1.0"
_ZAP_FIELDS = 7  # version, request id, domain, address, routing id, mechanism, the dialer's public key
_DOMAIN = b"scaler"

_logger = logging.getLogger("scaler.transport")

_starting = threading.Lock()
_handlers: dict[int, threading.Thread] = {}
"""By the context of libzmq whose connections the thread admits."""


class HandlerError(ScalerError):
    """The ZAP handler has ended, so no dialer can connect any more."""


def listen_with(socket: zmq.Socket[bytes], keyring: Keyring | None) -> None:
    """Before the socket is bound; or again, before it is bound anew with another pair."""
    if keyring is None:
        return
    check_curve()
    _start_zap(socket.context)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keyring.curve_secret)
    # Without an answer of the ZAP handler, no connection: the User-Id of each frame is what the handler has said.
    socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def dial_with(socket: zmq.Socket[bytes], shown: Pass | None, attempt: int = 0) -> None:
    """Before the socket is connected. Of several public keys that the servers may have, each dial tries the next."""
    if shown is None:
        return
    check_curve()
    socket.setsockopt(zmq.CURVE_SERVERKEY, shown.server_keys[attempt % len(shown.server_keys)])
    socket.setsockopt(zmq.CURVE_PUBLICKEY, shown.public_key)
    socket.setsockopt(zmq.CURVE_SECRETKEY, shown.secret_key)


def holder_of(frame: zmq.Frame) -> bytes:
    """The public key of the dialer whose connection this frame came by; empty without CURVE."""
    try:
        return bytes.fromhex(str(frame.get("User-Id")))
    except (zmq.ZMQError, ValueError):
        return b""


def host_of(frame: zmq.Frame) -> str:
    """The address of the other end of the connection this frame came by; empty where libzmq does not know it."""
    try:
        return str(frame.get("Peer-Address"))
    except zmq.ZMQError:
        return ""


def _start_zap(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with _starting:
        socket = context.socket(zmq.REP)
        socket.linger = 0
        try:
            socket.bind(_ZAP_ADDRESS)
        except zmq.ZMQError as error:
            socket.close()
            if error.errno != zmq.EADDRINUSE:
                raise
            return  # this context has one
        handler = threading.Thread(target=_answer, args=(socket,), name="scaler-zap", daemon=True)
        _handlers[context.underlying] = handler
        handler.start()


def check_handler(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """Raises HandlerError, after a critical line in the log, if no connection can be admitted in this context any more.
    A server that went on would keep its sessions, and refuse each new dialer without a reason."""
    handler = _handlers.get(context.underlying)
    if handler is None or not handler.is_alive():
        text = (
            "the handler that admits connections with keys has ended, so no program can connect to this server any "
            "more. The server ends now, and can be started again. The line before says why; report it"
        )
        _logger.critical(text)
        raise HandlerError(text)


def _answer(socket: zmq.Socket[bytes]) -> None:
    """Until the context ends."""
    try:
        while True:
            request = socket.recv_multipart()
            socket.send_multipart(answer(request))
    except zmq.ContextTerminated:
        pass
    except BaseException as error:  # noqa: BLE001 whatever ends the handler is told, and ends the server (check_handler)
        if not socket.context.closed:  # else the context is no longer ours
            _logger.critical("the handler that admits connections with keys has ended: %r", error)
    finally:
        socket.close()


def answer(request: list[bytes]) -> list[bytes]:
    """The ZAP answer: the public key of the dialer as its `User-Id`, or a refusal if it has none."""
    head = [_ZAP_VERSION, request[1] if len(request) > 1 else b""]
    if len(request) == _ZAP_FIELDS and request[5] == b"CURVE" and len(request[6]) == 32:
        return [*head, b"200", b"OK", request[6].hex().encode(), b""]
    return [*head, b"400", b"a dialer needs the key of this cluster", b"", b""]
