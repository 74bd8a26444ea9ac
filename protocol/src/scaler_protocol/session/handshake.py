"""What a server makes of a Hello: pure functions from the Hello and its own terms to a Reject or a Welcome (HSK)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from enum import Enum

from scaler_protocol import codes
from scaler_protocol.errors import readable
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, Limits, MemoryFile, Reject, Resume, Software, Timers, Welcome
from scaler_protocol.records import dataclass
from scaler_protocol.session.channel import Channel

ROLE_NAMES = {
    codes.ROLE_CLIENT: "client",
    codes.ROLE_WORKER: "worker",
    codes.ROLE_SCHEDULER: "scheduler",
    codes.ROLE_MONITOR: "monitor",
    codes.ROLE_MANAGER: "worker manager",
}

#: A session never has less, whatever a peer offers: batches, and a Hello of its own, would not fit (LIM-2).
FLOORS = Limits(inline_bytes=1024, payload_frame_bytes=8 * 1024 * 1024, batch_tasks=1, envelope_bytes=64 * 1024)

#: The largest envelope of a Hello. A server answers one of this size; it may close the connection of a larger one
#: before the Hello is whole, because a stranger sends it (LIM-20).
HELLO_BYTES = 64 * 1024

#: Below this a loaded machine would lose peers that are well (LIV-1).
SHORTEST_HEARTBEAT_SECONDS = 0.05

_LONGEST_NAME = 80
_STORAGE = "scaler-storage"


@dataclass(frozen=True, slots=True)
class WelcomeFields:
    """The part of a Welcome that only the role knows, made for each Hello."""

    storage_address: str = ""
    monitor_address: str = ""
    is_protected: bool = False
    object_retention_seconds: float = 0.0
    #: for this dialer, where they are not those of all dialers
    timers: Timers | None = None
    #: features that this dialer names and has no right to (HSK-25)
    withheld_features: frozenset[str] = frozenset()
    directory: MemoryFile = field(default_factory=MemoryFile)
    #: of a scheduler (HSK-35)
    generation: int = 0
    is_standby: bool = False
    owner_grant: bytes = b""


WelcomeOf = Callable[[Hello, Identity | None], WelcomeFields]
"""Of a Hello, and whose it is where there are keys."""


@dataclass(frozen=True, slots=True)
class ServerTerms:
    """What a server offers and asks of everyone who dials."""

    server_id: PeerId
    role_name: str
    allowed_roles: Collection[int]
    allowed_messages: Mapping[int, frozenset[type]] | None = None
    welcome_fields: WelcomeOf = field(default=lambda hello, identity: WelcomeFields())
    software: Software = field(default_factory=Software)
    incarnation: int = 1
    timers: Timers = field(default_factory=Timers)
    limits: Limits = field(default_factory=Limits)
    features: tuple[str, ...] = ()
    version_min: int = codes.PROTOCOL_VERSION_MIN
    version_max: int = codes.PROTOCOL_VERSION_MAX
    #: the Reject of a Hello that is well in itself, while another server serves in our place (HSK-40)
    turned_away: Callable[[Hello], Reject | None] = field(default=lambda hello: None)


def why_given_up(server_name: str, seconds: float | None, reason: str) -> str:
    """What is told the user of a dialer that was not welcomed for so long. `reason`: the text of the server's last
    Reject OVERLOADED, if there was one. (ERR-11)"""
    if reason:
        return f"{reason} (tried for {seconds:g} s)"
    return f"no {server_name} answered within {seconds:g} s: is it running, at this address?"


def why_too_large(hello_bytes: int) -> str:
    """Empty if servers read a Hello with an envelope of this size. (LIM-20)"""
    if hello_bytes <= HELLO_BYTES:
        return ""
    return (
        f"the first message to the server would have {hello_bytes:,} bytes, and may have {HELLO_BYTES:,}: give shorter "
        "names, or fewer capabilities"
    )


def why_no_version(server_name: str, hello: Hello, welcome: Welcome) -> str:
    """Empty if the version that the server has chosen is one that the dialer speaks. (HSK-27)"""
    if hello.version_min <= welcome.version <= hello.version_max:
        return ""
    ours = version_range(hello.version_min, hello.version_max)
    return f"the {server_name} chose protocol {welcome.version} and this side speaks {ours}: upgrade one"


def why_no_scheduler(welcome: Welcome, address: str) -> str:
    """Empty unless our storage has welcomed us, as it does clients and workers; who took it for the scheduler
    would wait for ever, or be refused message by message. A scheduler need name no address in its Welcome (HSK-18)."""
    if welcome.storage_address or welcome.monitor_address or welcome.software.name != _STORAGE:
        return ""
    name = software_name(welcome.software, _STORAGE)
    return f"{name} answers at {address}, and no scheduler: give the scheduler's address, often one port lower"


def refuse(terms: ServerTerms, hello: Hello, routing_id: bytes) -> Reject | None:
    """Why this Hello cannot become a session, or None. The first reason counts: a version first, for all else
    may mean something different in another one."""
    if hello.version_min > terms.version_max or hello.version_max < terms.version_min:
        return reject(terms, codes.VERSION_MISMATCH, _mismatch_text(terms, hello))
    if len(routing_id) != ID_BYTES or routing_id[0] == 0:
        text = "the routing id of a socket must be 16 random bytes, the first not zero: set it before connecting"
        return reject(terms, codes.BAD_IDENTITY, text)
    if len(hello.peer_id) != ID_BYTES:
        text = f"a peer id has {ID_BYTES} bytes and this one has {len(hello.peer_id)}"
        return reject(terms, codes.BAD_IDENTITY, text)
    if hello.role not in terms.allowed_roles:
        wanted = ", ".join(sorted(role_name(role) for role in terms.allowed_roles))
        text = (
            f"{_a(terms.role_name)} does not talk to {_a(role_name(hello.role))} (only to: {wanted}): check the address"
        )
        return reject(terms, codes.BAD_ROLE, text)
    return terms.turned_away(hello)


def refuse_for_now(terms: ServerTerms, *, is_shut_down: bool, is_of_another: bool) -> Reject | None:
    """Why a Hello that is well in itself gets no session."""
    if is_shut_down:
        text = f"this {terms.role_name} is shutting down: dial again when its successor is up"
        return reject(terms, codes.SHUTTING_DOWN, text)
    if is_of_another:
        text = "this socket carries the session of another peer id: use a socket of its own"
        return reject(terms, codes.BAD_IDENTITY, text)
    return None


def full(terms: ServerTerms, sessions: int) -> Reject:
    """There is no room for one session more of this user."""
    text = f"this {terms.role_name} has {sessions} sessions, as many as it may: end some, or dial again later"
    return reject(terms, codes.OVERLOADED, text)


def welcome(terms: ServerTerms, hello: Hello, identity: Identity | None, session_id: int) -> Welcome:
    """The Welcome of a new session."""
    own = terms.welcome_fields(hello, identity)
    return Welcome(
        version=min(hello.version_max, terms.version_max),
        server_id=terms.server_id,
        incarnation=terms.incarnation,
        session_id=session_id,
        features=tuple(name for name in terms.features if name in hello.features and name not in own.withheld_features),
        limits=agree_limits(terms.limits, hello.limits),
        timers=agree_timers(own.timers or terms.timers, hello.timers),
        software=terms.software,
        storage_address=own.storage_address,
        monitor_address=own.monitor_address,
        is_protected=own.is_protected,
        object_retention_seconds=own.object_retention_seconds,
        directory=own.directory,
        owner_grant=own.owner_grant,
        generation=own.generation,
        is_standby=own.is_standby,
    )


def remembering(hello: Hello, welcome: Welcome) -> Hello:
    """What the next Hello tells of this session: a scheduler learns from it that it has a predecessor. (HSK-36)"""
    if not welcome.generation:
        return hello
    generation = max(hello.generation, welcome.generation)
    former_name = hello.peer_id + welcome.owner_grant if welcome.owner_grant else hello.former_name
    return replace(hello, generation=generation, last_server_id=welcome.server_id, former_name=former_name)


class Verdict(Enum):
    """What a Hello is to the session its peer has already."""

    RESUME = "resume"  # continue it on the new socket
    REPEATED = "repeated"  # another attempt to open it, which has not been used yet: the same Welcome
    REPLACE = "replace"  # the peer knows nothing of it any more: lose it, open another
    STALE = "stale"  # older than the session: from a socket its peer has left, or a second peer with this id


def judge(hello: Hello, current: Hello, session_id: int, channel: Channel) -> Verdict:
    """How `hello` relates to the session that `current` opened or last resumed (HSK-7, HSK-14, HSK-23, HSK-24).

    The hazard is a Hello that was delayed on a socket its dialer gave up: a stopped server reads it after the Hello
    of the next socket, and to replace the live session then would cost a worker all its tasks. A dialer raises its
    incarnation with each dial that does not resume, and acknowledges more and more, so both kinds can be told.
    """
    if hello.incarnation != current.incarnation:
        return Verdict.REPLACE if hello.incarnation > current.incarnation else Verdict.STALE
    resume = hello.resume
    if resume.session_id == session_id:
        if resume.received_seq < channel.acknowledged_seq:
            return Verdict.STALE
        return Verdict.RESUME if channel.is_possible(resume.received_seq) else Verdict.REPLACE
    if resume == Resume():
        return Verdict.REPEATED if hello == current and _is_unused(channel) else Verdict.REPLACE
    # It names a session before the present one. If the present one has not been used yet, its Welcome may have missed
    # the dialer, or it was a late Hello that opened it. If it is in use, giving way would let two peers with one id
    # throw each other out for ever.
    return Verdict.REPEATED if _is_unused(channel) else Verdict.STALE


def is_again(hello: Hello, current: Hello, channel: Channel) -> bool:
    """Returns whether a dialer that was not welcomed in time says the same once more, on another socket."""
    return _is_unused(channel) and replace(hello, incarnation=current.incarnation, resume=current.resume) == current


def _is_unused(channel: Channel) -> bool:
    """The dialer has not shown that it knows of this session."""
    return channel.received_seq == 0 and channel.acknowledged_seq == 0


def agree_limits(ours: Limits, theirs: Limits) -> Limits:
    """The smaller of both. Zero means the default, and an offer below the floor counts as the floor (LIM-5)."""
    default = Limits()
    payload_frame_bytes = max(FLOORS.payload_frame_bytes, theirs.payload_frame_bytes or default.payload_frame_bytes)
    return Limits(
        inline_bytes=min(ours.inline_bytes, max(FLOORS.inline_bytes, theirs.inline_bytes or default.inline_bytes)),
        payload_frame_bytes=min(ours.payload_frame_bytes, payload_frame_bytes),
        batch_tasks=min(ours.batch_tasks, theirs.batch_tasks or default.batch_tasks),
        envelope_bytes=min(
            ours.envelope_bytes, max(FLOORS.envelope_bytes, theirs.envelope_bytes or default.envelope_bytes)
        ),
    )


def agree_timers(ours: Timers, theirs: Timers) -> Timers:
    """The shorter of both, but never so short that a healthy peer would be lost (LIV-1)."""
    heartbeat = min(ours.heartbeat_seconds, _or_default(theirs.heartbeat_seconds, ours.heartbeat_seconds))
    heartbeat = max(heartbeat, SHORTEST_HEARTBEAT_SECONDS)
    lease = min(ours.lease_seconds, _or_default(theirs.lease_seconds, ours.lease_seconds))
    return Timers(heartbeat_seconds=heartbeat, lease_seconds=max(lease, 3 * heartbeat))


def role_name(role: int) -> str:
    return ROLE_NAMES.get(role, f"role {role}")


def software_name(software: Software, otherwise: str) -> str:
    return readable(f"{software.name or otherwise} {software.version}".strip(), _LONGEST_NAME)


def version_range(low: int, high: int) -> str:
    return f"protocol {low}" if low == high else f"protocols {low} to {high}"


def _mismatch_text(terms: ServerTerms, hello: Hello) -> str:
    ours = software_name(terms.software, terms.role_name)
    theirs = software_name(hello.software, role_name(hello.role))
    older = theirs if hello.version_max < terms.version_min else ours
    return (
        f"{ours} speaks {version_range(terms.version_min, terms.version_max)} and {theirs} speaks "
        f"{version_range(hello.version_min, hello.version_max)}: upgrade {older}"
    )


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def reject(terms: ServerTerms, code: int, text: str) -> Reject:
    return Reject(code=code, version_min=terms.version_min, version_max=terms.version_max, text=text)


def _or_default(seconds: float, default: float) -> float:
    return seconds if math.isfinite(seconds) and seconds > 0 else default
