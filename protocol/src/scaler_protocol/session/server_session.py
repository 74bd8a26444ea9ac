"""One session as its server sees it."""

from __future__ import annotations

from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Acknowledge, Bye, Error, Hello, Ping, Pong, Reject, Welcome
from scaler_protocol.session.channel import Channel

#: Messages of the session layer itself; all others are the role's. The first four are outside the sequence by rule, as
#: is an Error that is fatal; every other message has a place in it (SES-1).
CONTROL: frozenset[type] = frozenset({Hello, Welcome, Reject, Acknowledge, Ping, Pong, Bye, Error})
#: What is read of a socket without a session: no other message would be taken (HSK-9, FRM-20).
FROM_STRANGERS: frozenset[type] = frozenset({Hello, Bye, Error})

#: A dialer that is well says something every heartbeat; at half a heartbeat more its socket is worth a question.
_PROBE_HEARTBEATS = 1.5


#: Of one session: Pings that wait for their Pongs, and Pongs that are not read. (SES-38)
MOST_PINGS = 4_096


class ServerSession:
    """Attached while it has a routing id, detached while its peer is expected on another socket. What came to its last
    socket before that was found closed still counts (`carrier`)."""

    __slots__ = (
        "allowed",
        "carrier",
        "channel",
        "heard_at",
        "hello",
        "identity",
        "is_over",
        "owes_since",
        "patience_seconds",
        "pings",
        "pong_seq",
        "pongs",
        "probed_at",
        "reads",
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
        identity: Identity | None,
        routing_id: RoutingId,
        now: float,
    ) -> None:
        self.hello = hello  # the one that opened or last resumed it
        self.welcome = welcome  # the answer to that one
        self.session_id = welcome.session_id
        self.channel = channel
        self.allowed = allowed  # what a peer of this role may send; None: anything
        # What the socket's messages are read by: the limits agreed, and the kinds that are read at all. (FRM-20)
        self.reads = (welcome.limits, None if allowed is None else allowed | CONTROL)
        self.identity = identity  # whose it is; None: the cluster has no keys
        self.routing_id: RoutingId | None = routing_id  # where to send
        self.carrier: RoutingId | None = routing_id  # where messages of this session come from
        self.heard_at = now
        self.patience_seconds = welcome.timers.lease_seconds  # of silence, from heard_at on
        self.probed_at = now
        self.owes_since = now  # what it was sent before that, it has acknowledged
        self.pings: list[int] = []  # nonces whose Pong is due when the role is done with what came before
        #: Pongs since the last one that is known to be read, about, and the number of the first of them
        self.pongs = 0
        self.pong_seq = 0
        self.is_over = False

    @property
    def peer_id(self) -> PeerId:
        return self.hello.peer_id

    @property
    def silence_text(self) -> str:
        """For people: why it is given up when it expires."""
        if self.routing_id is None:
            return f"its connection broke, and none followed within {self.patience_seconds:g} s"
        return f"silent for {self.patience_seconds:g} s"

    def expires_at(self) -> float:
        return self.heard_at + self.patience_seconds

    def checks_at(self) -> float:
        """When to look at it again: to probe its socket, or to give it up."""
        if self.routing_id is None:
            return self.expires_at()
        probe_seconds = _PROBE_HEARTBEATS * self.welcome.timers.heartbeat_seconds
        return min(self.expires_at(), max(self.heard_at, self.probed_at) + probe_seconds)

    def grace_seconds(self, reconnect_seconds: float) -> float:
        """A peer that is well may notice nothing before its next Ping, and then has to dial (LIV-6)."""
        timers = self.welcome.timers
        grace_seconds = timers.heartbeat_seconds + max(reconnect_seconds, timers.heartbeat_seconds)
        return min(grace_seconds, timers.lease_seconds)

    @property
    def has_too_many_pings(self) -> bool:
        """More than a peer that is well can have sent while the role was busy, or more than it would leave unread.
        (SES-38)"""
        return len(self.pings) > MOST_PINGS or self.pongs > MOST_PINGS

    def note_pong(self) -> None:
        """One more was sent."""
        if self.channel.acknowledged_seq >= self.pong_seq:
            self.pong_seq, self.pongs = self.channel.sent_seq, 0
        self.pongs += 1

    def attach(self, routing_id: RoutingId, now: float) -> None:
        self.routing_id = self.carrier = routing_id
        self.heard_at = now
        self.patience_seconds = self.welcome.timers.lease_seconds

    def detach(self, grace_seconds: float, now: float) -> None:
        self.routing_id = None
        self.heard_at = now
        self.patience_seconds = grace_seconds
