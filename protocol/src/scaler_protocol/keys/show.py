"""Keys and tickets for people, without their secrets."""

from __future__ import annotations

import time
from hashlib import blake2b

from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.texts import KeyText, TicketText
from scaler_protocol.keys.tickets import read, ticket_id


def fingerprint(server_key: bytes) -> str:
    """Eight digits by which people compare keys and tickets of a cluster. The public key itself is not shown, because
    a program that has it is let in as far as the Hello."""
    return blake2b(server_key, digest_size=4, person=b"scaler shown 1").hexdigest()


def described(found: KeyText | TicketText, now: float) -> str:
    if isinstance(found, KeyText):
        return _of_keys(found)
    said = read(found.ticket)
    state = "" if not said.is_expired(now) else " (expired)"
    lines = [
        "  a ticket for cluster " + ", ".join(map(fingerprint, found.server_keys)),
        f"  id       {ticket_id(said.holder)}",
        f"  user     {said.user}",
        f"  roles    {role_names(said.roles) or 'none'}{', operator' if said.is_operator else ''}",
        f"  expires  {day(said.expires) if said.expires else 'when its key is taken out'}{state}",
    ]
    return "\n".join(lines)


def day(at: float) -> str:
    """In UTC, as the time is the same for all hosts."""
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return "a time beyond this calendar"


def _of_keys(found: KeyText) -> str:
    newest_first = reversed(Keyring(found.keys).server_keys)
    names = [f"  the key of cluster {fingerprint(key)}" for key in newest_first]
    if len(names) > 1:
        names[0] += "  (the newest: signs tickets)"
        names[-1] += "  (the oldest: servers listen with it)"
    return "\n".join(names)
