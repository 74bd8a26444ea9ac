"""The golden vectors of keys are what our code makes and reads, and what another library makes of them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest
from conformance.tools import key_vectors
from conformance.tools.make_vectors import VECTORS

from scaler_protocol.keys import Identity, KeyFileError, Keyring
from scaler_protocol.keys.texts import KeyText, TicketText, parsed

FOLDER = VECTORS / key_vectors.FOLDER


def rows(name: str) -> list[dict[str, Any]]:
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert found
    return list(found)


@pytest.mark.parametrize("name", ["derivation", "tickets", "files"])
def test_they_are_made_as_they_were(name: str) -> None:
    assert rows(name) == getattr(key_vectors, name)()


@pytest.mark.parametrize("row", rows("derivation"), ids=lambda row: row["key"][:8])
def test_derivation(row: dict[str, Any]) -> None:
    key = bytes.fromhex(row["key"])
    labels = {"curveSecret": "scaler curve 1", "ticketKey": "scaler ticket 1", "grantKey": "scaler grant 1"}
    for name, label in labels.items():
        assert row[name] == blake2b(label.encode(), key=key, digest_size=32).hexdigest()
    grant_key = bytes.fromhex(row["grantKey"])
    assert row["grant"] == blake2b(bytes.fromhex(row["owner"]), key=grant_key, digest_size=16).hexdigest()
    family = bytes.fromhex(row["family"])
    terms = bytes.fromhex(row["lentTo"]) + int(row["ends"]).to_bytes(8, "little")
    shown = (("grantOfFamily", family), ("lent", family + b"\0" + terms), ("lentToRelease", family + b"\1" + terms))
    for name, said in shown:
        content = bytes.fromhex(row["owner"]) + said
        assert row[name] == said.hex() + blake2b(content, key=grant_key, digest_size=16).hexdigest()
    assert row["curvePublic"] == x25519(bytes.fromhex(row["curveSecret"])).hex()


@pytest.mark.parametrize("row", rows("tickets"), ids=lambda row: row["note"])
def test_tickets(row: dict[str, Any]) -> None:
    keyring = Keyring([bytes.fromhex(key) for key in row["keys"]])
    found = keyring.admit(
        bytes.fromhex(row["ticket"]), bytes.fromhex(row["connection"]), row["role"], float(row["now"])
    )
    assert isinstance(found, Identity) == row["isAdmitted"]
    if isinstance(found, Identity):
        assert (found.user, sorted(found.roles)) == (row["user"], row["roles"])
        assert (found.is_operator, found.expires) == (row["isOperator"], float(row["expires"]))


@pytest.mark.parametrize("row", rows("files"), ids=lambda row: row["note"])
def test_files(row: dict[str, Any]) -> None:
    text = row["text"].encode()
    if row.get("isRefused"):
        with pytest.raises(KeyFileError):
            parsed(text, "it")
        return
    found = parsed(text, "it")
    if isinstance(found, KeyText):
        assert [key.hex() for key in found.keys] == row["keys"]
    else:
        assert isinstance(found, TicketText)
        assert [key.hex() for key in found.server_keys] == row["serverKeys"]
        assert (found.secret_key.hex(), found.ticket.hex()) == (row["secretKey"], row["ticket"])
        assert x25519(found.secret_key).hex() == row["publicKey"]


def x25519(secret: bytes) -> bytes:
    """The public key as RFC 7748 has it, in the fewest lines: libzmq may be right or wrong, this says which."""
    prime = 2**255 - 19
    scalar = (int.from_bytes(secret, "little") & ~7 & ((1 << 255) - 1)) | 1 << 254
    x_2, z_2, x_3, z_3, swap = 1, 0, 9, 1, 0
    for position in reversed(range(255)):
        bit = scalar >> position & 1
        if swap ^ bit:
            x_2, x_3, z_2, z_3 = x_3, x_2, z_3, z_2
        swap = bit
        plus, minus = x_2 + z_2, x_2 - z_2
        plus_square, minus_square = plus * plus, minus * minus
        cross, cross_too = (x_3 - z_3) * plus, (x_3 + z_3) * minus
        difference = plus_square - minus_square
        x_3, z_3 = (cross + cross_too) ** 2 % prime, 9 * (cross - cross_too) ** 2 % prime
        x_2, z_2 = plus_square * minus_square % prime, difference * (plus_square + 121_665 * difference) % prime
    if swap:
        x_2, z_2 = x_3, z_3
    return (x_2 * pow(z_2, prime - 2, prime) % prime).to_bytes(32, "little")
