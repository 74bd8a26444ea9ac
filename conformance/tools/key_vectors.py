"""The golden vectors of keys: derivation, grants, tickets, and the texts of key and ticket files (SEC-7 to SEC-11,
SEC-21).

One document each, in `vectors/v1/keys`. Nothing in them is random: keys and secrets are rows of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaler_protocol import codes
from scaler_protocol.keys import ALL_ROLES, Identity, KeyFileError, Keyring, Refusal
from scaler_protocol.keys.derivation import CURVE_LABEL, GRANT_LABEL, TICKET_LABEL, derived, mac, public_key
from scaler_protocol.keys.texts import KeyText, TicketText, key_text, parsed, ticket_text
from scaler_protocol.keys.tickets import MAC_BYTES

FOLDER = "keys"
NOW = 1_800_000_000

NEW, OLD = bytes(range(32)), bytes(range(255, 223, -1))
HOLDER_SECRET = bytes(range(64, 96))
OWNER, FAMILY, USER = bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 40))

Json = Mapping[str, Any]


def write(root: Path, *, is_again: bool) -> int:
    """How many were written; one that is there already stays as it is."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = {"derivation": derivation(), "tickets": tickets(), "files": files()}
    missing = {name: rows for name, rows in made.items() if is_again or not (folder / f"{name}.json").exists()}
    for name, rows in missing.items():
        text = json.dumps(rows, indent=1, ensure_ascii=True) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
    return len(missing)


def derivation() -> list[Json]:
    return [
        {
            "key": key.hex(),
            "curveSecret": derived(key, CURVE_LABEL).hex(),
            "curvePublic": public_key(derived(key, CURVE_LABEL)).hex(),
            "ticketKey": derived(key, TICKET_LABEL).hex(),
            "grantKey": derived(key, GRANT_LABEL).hex(),
            "owner": OWNER.hex(),
            "grant": Keyring([key]).grant(OWNER).hex(),
            "family": FAMILY.hex(),
            "grantOfFamily": Keyring([key]).grant(OWNER, FAMILY).hex(),
            "lentTo": USER.hex(),
            "ends": str(NOW),
            "lent": Keyring([key]).lend(OWNER, FAMILY, USER, NOW).hex(),
            "lentToRelease": Keyring([key]).lend(OWNER, FAMILY, USER, NOW, may_release=True).hex(),
        }
        for key in (NEW, OLD, bytes(32))
    ]


def tickets() -> list[Json]:
    """Each is shown to a server with the keys NEW and OLD at the time NOW, with a Hello of that role."""
    both, holder = Keyring([NEW, OLD]), public_key(HOLDER_SECRET)
    worker, client = frozenset({codes.ROLE_WORKER}), codes.ROLE_CLIENT

    def ticket(
        keyring: Keyring = both,
        user: str = "ana",
        roles: frozenset[int] = ALL_ROLES,
        is_operator: bool = False,
        expires: float = 0.0,
    ) -> bytes:
        return keyring.ticket(Identity(user, roles, is_operator, holder, expires))

    right = ticket()
    shown: list[tuple[str, bytes, bytes, int]] = [
        ("all roles", right, holder, client),
        ("an operator", ticket(is_operator=True), holder, client),
        ("one role", ticket(roles=worker), holder, codes.ROLE_WORKER),
        ("a name that is not ASCII", ticket(user="Zo\u00eb \u5c71"), holder, client),
        ("the longest name", ticket(user="n" * 64), holder, client),
        ("expires later", ticket(expires=NOW + 1), holder, client),
        ("signed with the older key", ticket(Keyring([OLD])), holder, client),
        ("roles that are not known", ticket(roles=frozenset({client, 14})), holder, client),
        ("no ticket", b"", holder, client),
        ("expired", ticket(expires=NOW), holder, client),
        ("another role", ticket(roles=worker), holder, client),
        ("another holder", right, public_key(NEW), client),
        ("no holder", right, b"", client),
        ("another cluster's key", ticket(Keyring([HOLDER_SECRET])), holder, client),
        ("one bit of the roles", right[:1] + bytes((right[1] ^ 0x80,)) + right[2:], holder, client),
        ("one bit of the MAC", right[:-1] + bytes((right[-1] ^ 1,)), holder, client),
        ("cut short", right[:-1], holder, client),
        ("one byte more", right + b"\0", holder, client),
        ("another version", b"\x02" + right[1:], holder, client),
        ("a length of the name that is not so", _with(right, 43, 4), holder, client),
        ("the name ends a line", _signed_again(right, b"a\na"), holder, client),
        ("the name is not UTF-8", _signed_again(right, b"\xff\xfe\xfd"), holder, client),
    ]
    rows = []
    for note, credential, connection, role in shown:
        found = both.admit(credential, connection, role, NOW)
        row: dict[str, Any] = {
            "note": note,
            "keys": [NEW.hex(), OLD.hex()],
            "now": NOW,
            "ticket": credential.hex(),
            "connection": connection.hex(),
            "role": role,
            "isAdmitted": isinstance(found, Identity),
        }
        if not isinstance(found, Refusal):
            row |= {
                "user": found.user,
                "roles": sorted(found.roles),
                "isOperator": found.is_operator,
                "expires": str(int(found.expires)),
            }
        rows.append(row)
    return rows


def files() -> list[Json]:
    ticket = ticket_text(Keyring([NEW, OLD]).derive("ana", ALL_ROLES, secret_key=HOLDER_SECRET))
    line = key_text([NEW])
    texts = [
        ("one key", line),
        ("two keys, the newest first", key_text([NEW, OLD])),
        ("comments and empty lines", f"# ours\n\n{line}\n# end"),
        ("lines that end as on Windows", line.replace("\n", "\r\n")),
        ("a ticket", ticket),
        ("a ticket with a comment", f"# worker\n{ticket}"),
        ("empty", ""),
        ("capital letters", line.replace("a", "A")),
        ("63 digits", line[:-2]),
        ("another version", line.replace("key-1", "key-2")),
        ("a key twice", line + line),
        ("nine keys", key_text([bytes((number,)) * 32 for number in range(9)])),
        ("too large", "#" * 4097),
        ("a damaged ticket", ticket.replace("ticket-1:", "ticket-1:_")),
        ("a ticket with padding", ticket.strip() + "="),
        ("a ticket and a key", ticket + line),
        ("half a ticket", ticket[:120]),
    ]
    return [{"note": note, "text": text, **_content(text)} for note, text in texts]


def _content(text: str) -> Json:
    try:
        found = parsed(text.encode(), "it")
    except KeyFileError:
        return {"isRefused": True}
    if isinstance(found, KeyText):
        return {"keys": [key.hex() for key in found.keys]}
    assert isinstance(found, TicketText)
    return {
        "serverKeys": [key.hex() for key in found.server_keys],
        "secretKey": found.secret_key.hex(),
        "publicKey": public_key(found.secret_key).hex(),
        "ticket": found.ticket.hex(),
    }


def _with(ticket: bytes, at: int, value: int) -> bytes:
    return ticket[:at] + bytes((value,)) + ticket[at + 1 :]


def _signed_again(ticket: bytes, user: bytes) -> bytes:
    """Another name of three bytes, with a right MAC: only the key's holder could do that, and it is refused."""
    content = ticket[: -MAC_BYTES - len(user)] + user
    return content + mac(derived(NEW, TICKET_LABEL), content)
