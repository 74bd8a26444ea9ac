"""What a session tells the role code of its side, in the order in which it happened.

The law of these events: per peer, `Opened` and `Lost` alternate, and every `Received` and `Complained` lies between
the two. Every session that was opened ends with exactly one `Lost`, whichever side ended it. Nothing a role sends while
it handles the events of one poll can slip into a session whose `Opened` it has not been given yet.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.errors import readable
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Bye, Error, Hello, Message, Reject, Welcome
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session. On a server `peer_id` is the dialer's; on a dialer it is the server's."""

    peer_id: PeerId
    hello: Hello
    welcome: Welcome
    identity: Identity | None = None
    """On a server with keys: whose session this is, for as long as it lasts. Otherwise None. (SES-30)"""
    is_again: bool = False
    """On a server: it takes the place of a session of the same Hello that was never used, since its Welcome came too
    late. The `Lost` before has the same mark, and both are no news to people."""


class Received(NamedTuple):
    """A message for the role: in order and exactly once per session, never one of the session layer itself.

    A tuple, because there is one for each message, and a frozen dataclass takes four times as long to make.
    """

    peer_id: PeerId
    seq: int
    message: Message


@dataclass(frozen=True, slots=True)
class Complained:
    """The other side has refused message `ref_seq` of ours; zero when it names none. As certain to come, and as surely
    in order, as any message (ERR-9)."""

    peer_id: PeerId
    code: int
    ref_seq: int
    text: str
    clause: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The session is over. On a dialer: unless `Opened` follows at once, it stays so until `redial()`."""

    peer_id: PeerId
    code: int
    text: str
    is_orderly: bool
    #: LEASE_EXPIRED of a dialer: how long it has waited for a sign of the server, awake
    silent_seconds: float = 0.0
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """Dialers only: the server will not have us, or no server answered. Final until `redial()`."""

    code: int
    text: str


SessionEvent = Opened | Received | Complained | Lost | Rejected


def complained(peer_id: PeerId, error: Error) -> Complained:
    return Complained(peer_id, error.code, error.ref_seq, text_of(error), readable(error.clause))


def text_of(message: Bye | Error | Reject) -> str:
    """What the other side says for people. Roles log it, and raise it: nothing in it may forge a line, or be obeyed by
    a terminal. (MON-7)"""
    return readable(message.text)


def why_lost(server_name: str, credential: bytes, hello: Hello) -> str:
    """Why a server has answered this Hello with a new session, instead of the one that was opened with the credential.
    When the oldest key is taken out, a server closes its connections. So it cannot tell dialers of it. (SES-32)"""
    text = f"the {server_name} no longer knows this session: "
    if hello.credential != credential:
        return f"{text}the key or ticket with which it was opened has been replaced, and another one is used now"
    return f"{text}it was restarted, or we were silent for too long"
