"""The identity of a session: what a Hello shows, judged by the keys of a server. (HSK-30, HSK-31, SES-30 to SES-32)

A server with keys asks for two things that fit together: a ticket in the Hello, and a connection that was opened with
the CURVE pair for which the ticket was made. Both are looked at once, at the Hello. Afterwards the session is bound to
its identity, and no message is looked at again.

On the local lane there is no CURVE: the kernel has proven that the other end is a process of the server's own user. So
a Hello there needs no ticket. If it has a ticket all the same, the ticket is judged: a program that was given the key
of another cluster, or a ticket for another role, must be refused over the lane as it is over TCP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from scaler_protocol import codes
from scaler_protocol.keys import Identity, Keyring, Refusal, local_identity
from scaler_protocol.keys.tickets import TicketError, read
from scaler_protocol.messages import Hello, Reject
from scaler_protocol.session.handshake import ServerTerms, reject
from scaler_protocol.session.server_session import ServerSession


class Proof(NamedTuple):
    """What the transport knows of the dialer behind a Hello."""

    holder: bytes = b""
    """The CURVE public key with which the connection was opened; empty where there is none."""
    is_same_user: bool = False
    """The kernel says that the other end is a process of this server's user: the local lane."""
    host: str = ""
    """The address of the other end, for the audit only; empty where it is not known, and on the local lane."""


NO_PROOF = Proof()
SAME_USER = Proof(is_same_user=True)

_INSECURE_TEXT = (
    "this server speaks without keys (it was started with --insecure) and the Hello shows a ticket: start the server "
    "with keys, or dial it with --insecure (insecure=True) if that is meant"
)

_EARLY_TEXT = (
    "the task that this client is in is not known yet: this scheduler has just been started, and waits for the workers "
    "of the one before; dial again later"
)


class Judged(NamedTuple):
    """One Hello and what came of it, for the audit. A Hello that resumes a session, or repeats one, is not audited; a
    session whose ticket admits it no more is, with the Hello that opened or last resumed it."""

    hello: Hello
    proof: Proof
    outcome: Identity | Reject | None
    """The Reject, or whose session was opened or ended: None without keys."""
    ended: str = ""
    """Why the session has ended."""


class Admission:
    """The rule of one server. Without a keyring, every dialer that reaches its port is admitted."""

    def __init__(
        self,
        keyring: Keyring | None = None,
        wall_clock: Callable[[], float] = lambda: 0.0,
        speaks_for_worker: Callable[[Hello, Identity], bool | None] = lambda hello, identity: bool(hello.parent_task),
        audit: Callable[[Judged], None] = lambda judged: None,
    ) -> None:
        """`speaks_for_worker`: whether a client with this Hello is part of a worker of that identity, so that the
        worker's ticket is enough; None as long as that is not known."""
        self.keyring = keyring
        self.audit = audit
        self._speaks_for_worker = speaks_for_worker
        #: looks at the file of the keys before a ticket is refused; whether it has others than before
        self.reread: Callable[[], bool] = lambda: False
        self._wall_clock = wall_clock
        self._account = None if keyring is None else local_identity()
        #: seconds since 1970, when the first ticket of those that were admitted may have expired
        self._review_at = math.inf

    def admit(
        self, hello: Hello, proof: Proof, current: ServerSession | None, terms: ServerTerms
    ) -> Identity | Reject | None:
        """The identity that the session of this Hello gets, None without keys; or the Reject of a Hello that may
        neither open a session nor move one."""
        found = self._judge(hello, proof, current)
        if isinstance(found, Refusal) and self.reread():
            found = self._judge(hello, proof, current)
        if isinstance(found, Identity) and current is None and self._is_early(hello, found):
            found = Refusal(_EARLY_TEXT, codes.OVERLOADED)
        if isinstance(found, Refusal):
            return reject(terms, found.code, found.text)
        if current is not None and not is_same(current.identity, found):
            text = "this peer id has a session that another holder has opened: use a new random peer id"
            return reject(terms, codes.UNAUTHORIZED, text)
        if found is not None and found.expires:
            self._review_at = min(self._review_at, found.expires)
        return found

    def review(self, sessions: Iterable[ServerSession]) -> list[tuple[ServerSession, str]]:
        """Those that would not be admitted any more, and why: a ticket has expired, or a key was taken out."""
        if self._wall_clock() < self._review_at:
            return []
        self._review_at = math.inf
        ended = []
        for session in sessions:
            identity = session.identity
            if identity is None or not session.hello.credential:
                continue  # no keys, or the kernel's word
            found = self._judge(session.hello, Proof(identity.holder), session)
            if isinstance(found, Refusal):
                ended.append((session, found.text))
            elif found is not None and found.expires:
                self._review_at = min(self._review_at, found.expires)
        return ended

    def _judge(self, hello: Hello, proof: Proof, current: ServerSession | None) -> Identity | Refusal | None:
        if self.keyring is None:
            return Refusal(_INSECURE_TEXT) if hello.credential else None
        if proof.is_same_user and not hello.credential:
            return self._account
        holder = _holder_of(hello.credential) if proof.is_same_user else proof.holder
        found = self.keyring.admit(hello.credential, holder, hello.role, self._wall_clock())
        if isinstance(found, Refusal) and hello.role == codes.ROLE_CLIENT:
            as_worker = self.keyring.admit(hello.credential, holder, codes.ROLE_WORKER, self._wall_clock())
            if isinstance(as_worker, Identity) and self._may_go_on(hello, as_worker, current):
                return as_worker
        return found

    def _may_go_on(self, hello: Hello, as_worker: Identity, current: ServerSession | None) -> bool:
        """A client with its worker's ticket: a session that it has outlives the task in which the session began."""
        is_its_own = current is not None and is_same(current.identity, as_worker)
        return is_its_own or self._speaks_for_worker(hello, as_worker) is not False

    def _is_early(self, hello: Hello, identity: Identity) -> bool:
        """It is in a task that this server does not know yet, so its rights are not known either. (SCH-74)"""
        is_nested = hello.role == codes.ROLE_CLIENT and bool(hello.parent_task)
        return is_nested and self._speaks_for_worker(hello, identity) is None

    def use(self, keyring: Keyring) -> None:
        """Other keys from now on: what they no longer admit ends with the next review. (SES-32)"""
        self.keyring = keyring
        self._review_at = 0.0


def is_same(one: Identity | None, other: Identity | None) -> bool:
    """Whether a Hello with the `other` identity may continue, move or replace a session of the first. A renewed ticket,
    for the same holder with the same rights, is the same identity. (SES-30)"""
    if one is None or other is None:
        return one is other
    return _without_expiry(one) == _without_expiry(other)


def _without_expiry(identity: Identity) -> tuple[object, ...]:
    return identity.holder, identity.user, identity.roles, identity.is_operator


def _holder_of(ticket: bytes) -> bytes:
    """The public key that the ticket names. On the lane there is no CURVE key to compare it with; there the kernel
    proves the user instead."""
    try:
        return read(ticket).holder
    except TicketError:
        return b""
