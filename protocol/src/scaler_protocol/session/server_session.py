"""One session as its server sees it."""

from __future__ import annotations

from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import Hello, Welcome
from scaler_protocol.session.channel import Channel


class ServerSession:
    """Attached while it has a routing id, detached while its peer is expected on another socket."""

    __slots__ = (
        "allowed",
        "channel",
        "heard_at",
        "hello",
        "is_over",
        "patience_seconds",
        "pings",
        "routing_id",
        "session_id",
        "welcome",
    )

    def __init__(
        self,
        hello: Hello,
        welcome: Welcome,
        channel: Channel,
        allowed: frozenset[type] | None,
        routing_id: RoutingId,
        now: float,
    ) -> None:
        self.hello = hello  # the one that opened or last resumed it
        self.welcome = welcome  # the answer to that one
        self.session_id = welcome.session_id
        self.channel = channel
        self.allowed = allowed  # what a peer of this role may send; None: anything
        self.routing_id: RoutingId | None = routing_id
        self.heard_at = now
        self.patience_seconds = welcome.timers.lease_seconds  # of silence, from heard_at on
        self.pings: list[int] = []  # nonces whose Pong is due when the role is done with what came before
        self.is_over = False

    @property
    def peer_id(self) -> PeerId:
        return self.hello.peer_id

    def expires_at(self) -> float:
        return self.heard_at + self.patience_seconds

    def attach(self, routing_id: RoutingId, now: float) -> None:
        self.routing_id = routing_id
        self.heard_at = now
        self.patience_seconds = self.welcome.timers.lease_seconds

    def detach(self, grace_seconds: float, now: float) -> None:
        self.routing_id = None
        self.heard_at = now
        self.patience_seconds = grace_seconds
