"""One loop for all sockets of the suite. Whatever a case waits for, everybody else goes on answering meanwhile, the
process under test is watched, and no wait is longer than the case may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import zmq
from zmq.utils import z85

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire.keys import ClusterKey

#: How often the process under test is looked at while nothing arrives.
TURN_SECONDS = 0.05
#: A pause of the suite itself beyond this spoils a measurement of time.
STALL_SECONDS = 0.1


class Endpoint(Protocol):
    socket: zmq.Socket[bytes]
    #: the CURVE public key behind the frames that it is given, in Z85; empty on a connection without keys
    said_by: str

    def on_frames(self, frames: list[bytes]) -> None: ...

    def on_time(self, now: float) -> None: ...


class _Gate:
    """What libzmq asks about each connection (ZAP, RFC 27). It lets in each whose CURVE handshake is sound, and the
    messages that follow name the public key of their sender."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.said_by = ""
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.bind("inproc://zeromq.zap.01")

    def on_frames(self, frames: list[bytes]) -> None:
        version, request, *_, mechanism, public_key = frames
        user_id = z85.encode(public_key) if mechanism == b"CURVE" else b""
        self.socket.send_multipart([version, request, b"200", b"", user_id, b""])

    def on_time(self, now: float) -> None: ...


class Pump:
    def __init__(self, watch: Callable[[], None] = lambda: None, key: ClusterKey | None = None) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, 4000)
        self.watch = watch
        #: of the cluster that is played; None: an insecure one
        self.key = key
        #: when the case that runs has to be over
        self.deadline = float("inf")
        self.stalls: list[tuple[float, float]] = []
        self._poller = zmq.Poller()
        self._endpoints: dict[zmq.Socket[bytes], Endpoint] = {}
        if key is not None:
            self.add(_Gate(self.context))

    def add(self, endpoint: Endpoint) -> None:
        self._endpoints[endpoint.socket] = endpoint
        self._poller.register(endpoint.socket, zmq.POLLIN)

    def remove(self, endpoint: Endpoint) -> None:
        if self._endpoints.pop(endpoint.socket, None) is not None:
            self._poller.unregister(endpoint.socket)
        endpoint.socket.close(0)

    def close(self) -> None:
        for endpoint in list(self._endpoints.values()):
            self.remove(endpoint)
        self.context.destroy(0)

    # ------------------------------------------------------------ turning

    def turn(self, seconds: float = TURN_SECONDS) -> bool:
        """Wait for something to arrive, at most so long, and let everybody handle it. Whether anything did."""
        entered_at = time.monotonic()
        ready = self._poller.poll(max(0, round(seconds * 1000)))
        now = time.monotonic()
        if now - entered_at > seconds + STALL_SECONDS:
            self.stalls.append((entered_at, now))
        for socket, _ in ready:
            self._receive(socket)
        for endpoint in list(self._endpoints.values()):
            endpoint.on_time(now)
        if not ready:
            self.watch()
        return bool(ready)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        for _ in range(200):  # a peer that never stops talking must not keep the others waiting
            endpoint = self._endpoints.get(socket)
            if endpoint is None:
                return
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            endpoint.said_by = _sender_of(frames[-1])
            endpoint.on_frames([frame.bytes for frame in frames])

    def until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Whether it came to be so within these seconds. The limit of the case ends every wait."""
        end_at = time.monotonic() + seconds
        while not is_so():
            left = min(end_at, self.deadline) - time.monotonic()
            if left <= 0:
                self.watch()
                if time.monotonic() >= self.deadline:
                    raise Breach("the case took longer than it may; the last wait is at the end of the transcript")
                return False
            self.turn(min(left, TURN_SECONDS))
        return True

    def for_seconds(self, seconds: float) -> None:
        """Let this time pass. For timing cases only; everything else is told by a fence."""
        self.until(lambda: False, seconds)

    def was_disturbed(self, since: float) -> bool:
        return any(end > since for _, end in self.stalls)


def _sender_of(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:  # a connection without keys
        return ""
