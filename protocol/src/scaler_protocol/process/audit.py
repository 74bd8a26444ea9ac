"""The audit of a server: a line for each Hello that opened a session or was refused, with user, role, host and ticket,
and for each session that ended because its ticket has expired, was revoked, or is by a key that was taken out.

The lines go to the logger `scaler.audit`, so that a logging configuration can give them a file of their own. Refusals
and sessions have a budget each: a flood of refused Hellos hides no session that was opened. A ticket is named by its
id, which `scaler_key show` prints too, and never shown.
"""

from __future__ import annotations

import logging
import time

from scaler_protocol import codes
from scaler_protocol.keys import Identity
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.tickets import TicketError, read, ticket_id
from scaler_protocol.messages import Hello, Reject
from scaler_protocol.process.line_budget import LineBudget
from scaler_protocol.session.admission import Judged, Proof

_logger = logging.getLogger("scaler.audit")

_OF_THE_MOMENT = frozenset({codes.OVERLOADED, codes.SHUTTING_DOWN, codes.SESSION_REPLACED})
"""Refusals of peers that may have every right: a standby sends them to each peer that dials it. Lines for debugging."""


class Audit:
    def __init__(self, server_name: str) -> None:
        self._server_name = server_name
        self._refusals = LineBudget(f"{server_name}, audit of refused Hellos")
        self._sessions = LineBudget(f"{server_name}, audit of sessions")

    def note(self, judged: Judged) -> None:
        hello, proof, outcome, ended = judged
        if isinstance(outcome, Reject):
            level = logging.DEBUG if outcome.code in _OF_THE_MOMENT else logging.WARNING
            budget = self._refusals
        elif ended:
            level, budget = logging.WARNING, self._sessions
        else:
            # A process of the server's own user on the lane has shown no ticket; without keys there is no user.
            level = logging.INFO if outcome is not None and hello.credential else logging.DEBUG
            budget = self._sessions
        if not _logger.isEnabledFor(level) or not budget.admits(time.monotonic()):
            return
        role, host = role_names([hello.role]), _host(proof)
        if isinstance(outcome, Reject):
            _logger.log(
                level, "%s: refused a Hello as %s from %s, %s: %s (%s)",
                self._server_name, role, host, _claimed(hello), outcome.text, codes.error_code_name(outcome.code),
            )  # fmt: skip
        elif ended:
            owner = _proven(hello, outcome)
            _logger.log(level, "%s: ended the session of a %s, %s: %s", self._server_name, role, owner, ended)
        else:
            _logger.log(level, "%s: admitted %s from %s, %s", self._server_name, role, host, _proven(hello, outcome))


def _host(proof: Proof) -> str:
    return "this host" if proof.is_same_user else proof.host or "an unknown host"


def _claimed(hello: Hello) -> str:
    """What a refused ticket says, which may be a lie."""
    if not hello.credential:
        return "no ticket"
    try:
        said = read(hello.credential)
    except TicketError:
        return "no readable ticket"
    return f"claimed {_told(said)}"


def _proven(hello: Hello, identity: Identity | None) -> str:
    if identity is None:
        return "no keys"
    return _told(identity) if hello.credential else f"user {identity.user}, no ticket on the local lane"


def _told(identity: Identity) -> str:
    operator = ", operator" if identity.is_operator else ""
    return f"user {identity.user}{operator}, ticket {ticket_id(identity.holder)}"
