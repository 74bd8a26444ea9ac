"""Servers with a key of their own, and what dialers show them. Clients of `keyed` servers find the key by the port, in
the runtime directory of the tests."""

from __future__ import annotations

import os
import time
from pathlib import Path

from scaler_protocol import codes
from scaler_protocol.keys import ALL_ROLES, Keyring, Pass, new_secret, pass_of
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.session import Rejected
from scaler_protocol.session.admission import Admission
from scaler_protocol.transport import DealerEndpoint
from tests.support.endpoints import Bench

#: One for all: a successor at the same address is of the same cluster.
_KEY = new_secret()


def keyed() -> Admission:
    return Admission(Keyring([_KEY]), time.time)


def ring(*keys: bytes, origin: str = "") -> Keyring:
    return Keyring(keys or (new_secret(),), origin)


def ticket(keyring: Keyring, *roles: int, user: str = "ana", expires: float = 0.0) -> Pass:
    return pass_of(keyring.derive(user, frozenset(roles), expires=expires), "ana.key")


def rejection(bench: Bench, dialer: DealerEndpoint) -> Rejected:
    bench.until(lambda: "Rejected" in bench.kinds(dialer), "a refusal")
    (event,) = [event for event in bench.events[dialer] if isinstance(event, Rejected)]
    assert event.code == codes.UNAUTHORIZED
    assert "Opened" not in bench.kinds(dialer)
    return event


def write_keys(path: Path, *keys: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(key_text(keys))
    os.replace(fresh, path)


def write_ticket(path: str, keyring: Keyring, expires: float = 0.0) -> None:
    replace_file(path, ticket_text(keyring.derive("ana", ALL_ROLES, expires=expires)).encode())
