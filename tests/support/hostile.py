"""Peers that break the rules, one frame at a time. What they send is built by hand where the codec would refuse to."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import zmq

from scaler_protocol import codes
from scaler_protocol.codec import decode, encode
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import PeerId, new_object_id, new_peer_id, new_routing_id
from scaler_protocol.messages import (
    Buffer,
    Error,
    Hello,
    Message,
    ObjectReply,
    Ping,
    Pong,
    Put,
    Reject,
    Results,
    Submit,
    TaskHeader,
    Timers,
    Welcome,
    WorkerOffer,
)

ANSWER_MILLISECONDS = 15_000
LEASE_SECONDS = 1.0
"""Short, so that a peer that leaves without a word is soon forgotten."""

HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\n\r\n"
TLS = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))
#: A greeting as ZeroMQ sends it (signature, version 3.1, NULL), then nonsense instead of the READY command.
ZMTP = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" + bytes(16) + b"\0" + bytes(31) + b"\x04\xffnonsense" * 20

#: What comes to a port from programs that mean another one, and from scanners.
NOISES = {
    "http": HTTP,
    "tls": TLS,
    "zmtp": ZMTP,
    "nothing": b"",
    "zeros": bytes(65_536),
    "random": secrets.token_bytes(65_536),
}


def make_noise(port: int, noise: bytes) -> None:
    """Say it, and hear whatever the other side says or that it hangs up; it may also just wait for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.settimeout(0.2)
        try:
            connection.sendall(noise)
            while connection.recv(4096):
                pass
        except OSError:
            pass


class RawPeer:
    """A DEALER of which every frame is the test's."""

    def __init__(self, address: str, routing_id: bytes | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, ANSWER_MILLISECONDS)
        self.socket.setsockopt(zmq.SNDTIMEO, ANSWER_MILLISECONDS)
        if routing_id != b"":
            self.socket.setsockopt(zmq.ROUTING_ID, routing_id or new_routing_id())
        self.socket.connect(address)
        self.peer_id = new_peer_id()

    def send(self, *frames: Buffer) -> None:
        self.socket.send_multipart(frames)

    def answer(self) -> Message:
        """The next message, whatever it is."""
        envelope, *payload = self.socket.recv_multipart()
        return decode(envelope, payload).message

    def refusal(self) -> Error | Reject | ObjectReply:
        """The next refusal; what else was said meanwhile is passed over."""
        while True:
            answer = self.answer()
            if isinstance(answer, (Error, Reject)) or (isinstance(answer, ObjectReply) and answer.code):
                return answer

    def join(self, role: int = codes.ROLE_CLIENT, lease_seconds: float = LEASE_SECONDS) -> Welcome:
        """As a peer that sends no heartbeats: the server gives its session up after the lease."""
        timers = Timers(heartbeat_seconds=0.2, lease_seconds=lease_seconds)
        offer = WorkerOffer(name="hostile", credit=0) if role == codes.ROLE_WORKER else WorkerOffer()
        self.send(*encode(Hello(1, 1, role=role, peer_id=self.peer_id, timers=timers, worker=offer)))
        welcome = self.answer()
        assert isinstance(welcome, Welcome), welcome
        return welcome

    def close(self) -> None:
        self.socket.close()
        self._context.term()


@contextmanager
def raw_peer(address: str, routing_id: bytes | None = None) -> Iterator[RawPeer]:
    peer = RawPeer(address, routing_id)
    try:
        yield peer
    finally:
        peer.close()


# ---------------------------------------------------------------- frames that no codec of ours would make


def submit(owner: PeerId, n_tasks: int = 3) -> Submit:
    """Well-formed."""
    return Submit(
        header=TaskHeader(client=owner),
        functions=bytes(new_object_id()),
        ids=secrets.token_bytes(16 * n_tasks),
        payload=b"x" * n_tasks,
        part_sizes=join_u32([1] * n_tasks),
    )


def results(n_tasks: int = 3) -> Results:
    """Well-formed, of tasks that nobody has given to anybody."""
    return Results(ids=secrets.token_bytes(16 * n_tasks), payload=b"x" * n_tasks, sizes=join_u32([1] * n_tasks))


def disagreeing_columns(owner: PeerId) -> Sequence[Buffer]:
    """Three ids, two sizes."""
    return encode(replace(submit(owner), part_sizes=join_u32([1, 2])), seq=1)


def truncated(frames: Sequence[Buffer]) -> Sequence[Buffer]:
    return [bytes(frames[0])[:-8], *frames[1:]]


def unknown_member() -> Sequence[Buffer]:
    """A message of a kind that no version knows: a Ping with another number in its union."""
    ping, pong = bytes(encode(Ping(0), seq=1)[0]), bytes(encode(Pong(0), seq=1)[0])
    (position,) = [index for index, pair in enumerate(zip(ping, pong, strict=True)) if pair[0] != pair[1]]
    return [ping[:position] + (9_999).to_bytes(2, "little") + ping[position + 2 :]]


def overrunning_chunk() -> Sequence[Buffer]:
    """The last bytes of a value of ten, and some more."""
    return encode(Put(1, new_object_id(), new_peer_id(), total_bytes=10, offset=8, payload=b"12345"), seq=1)
