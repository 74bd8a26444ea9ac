"""Which hosts have given a sign of late: a server whose own network is down hears none of them (LIV-19)."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from scaler_protocol.session.server_session import ServerSession

if TYPE_CHECKING:
    from scaler_protocol.session.vanishing import Lines

LOOK_SECONDS = 0.1
_MOST_ASKED = 8
"""Hosts of whose connections the system is asked, those first whose messages came last."""


class Signs:
    """Of the hosts of watched sessions. Those of the server's own host prove nothing, and are left out."""

    def __init__(self) -> None:
        #: all and only the watched sessions with a host that is known; those that are over for a while
        self._hosts: dict[ServerSession, str] = {}
        #: as of the last look: how many hosts there are, and when the last of them gave a sign
        self._count = 0
        self._latest: list[tuple[str, float]] = []
        self._look_at = -math.inf

    def met(self, session: ServerSession, host: str) -> None:
        """It has a connection from this host; empty: from the server's own, or it is not known."""
        if host:
            self._hosts[session] = host
        else:
            self.forget(session)

    def forget(self, session: ServerSession) -> None:
        self._hosts.pop(session, None)

    def look(self, lines: Lines, now: float) -> None:
        """Once in a while: with very many sessions a look takes milliseconds."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        newest: dict[str, ServerSession] = {}
        for session, host in self._hosts.items():
            if not session.is_over and (host not in newest or newest[host].heard_at < session.heard_at):
                newest[host] = session
        self._count = len(newest)
        asked = heapq.nlargest(_MOST_ASKED, newest.items(), key=lambda item: item[1].heard_at)
        self._latest = [(host, _sign_of(session, lines, now)) for host, session in asked]

    def is_another_heard(self, session: ServerSession, since: float) -> bool:
        """Whether another host has given a sign since then; True also if there is no other one to tell by."""
        own = self._hosts.get(session)
        return own is None or self._count < 2 or any(host != own and at >= since for host, at in self._latest)


def _sign_of(session: ServerSession, lines: Lines, now: float) -> float:
    """A message, or what the system knows."""
    facts = None if session.routing_id is None else lines.facts_of(session.routing_id)
    return session.heard_at if facts is None else max(session.heard_at, now - facts.silent_seconds)
