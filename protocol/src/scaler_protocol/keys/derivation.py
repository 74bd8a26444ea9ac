"""What is derived from a cluster's key: the servers' CURVE pair, the key of tickets, the key of owner grants. (SEC-8)

Each of them is the keyed BLAKE2b hash of a label, so that none of them tells anything about the key or the others.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from hmac import compare_digest

import zmq
from zmq.utils import z85

from scaler_protocol.ids import ID_BYTES, USER_BYTES
from scaler_protocol.keys.errors import KeyFileError

KEY_BYTES = 32
MAC_BYTES = 32

CURVE_LABEL = b"scaler curve 1"
TICKET_LABEL = b"scaler ticket 1"
GRANT_LABEL = b"scaler grant 1"
#: of what a server leaves on its own disk; nothing on the wire is made with it
MARK_LABEL = b"scaler mark 1"

#: libzmq before 4.3.3 has known holes in its CURVE handshake.
OLDEST_LIBZMQ = (4, 3, 3)


def derived(key: bytes, label: bytes) -> bytes:
    return blake2b(label, key=key, digest_size=KEY_BYTES).digest()


def public_key(secret_key: bytes) -> bytes:
    """The CURVE public key of a CURVE secret key: X25519 of it and the base point."""
    check_curve()
    return z85.decode(zmq.curve_public(z85.encode(secret_key)))


def new_secret() -> bytes:
    """A cluster's key, or a CURVE secret key: 32 bytes that the system's generator made."""
    return secrets.token_bytes(KEY_BYTES)


def mac(key: bytes, content: bytes, size: int = MAC_BYTES) -> bytes:
    return blake2b(content, key=key, digest_size=size).digest()


def is_mac(found: bytes, key: bytes, content: bytes, size: int = MAC_BYTES) -> bool:
    """Whether this is the MAC of that content; takes as long for a wrong one as for a right one."""
    return compare_digest(found, mac(key, content, size))


def own_family(owner: bytes, user: str) -> bytes:
    """Returns the family of a client that is in no other one. A client of another user with the same name, which it may
    have taken while the scheduler was restarted, is in another family. Its first bytes tell workers which families are
    of one user. (HSK-43, WRK-68, WRK-70)"""
    return families_of(user) + blake2b(owner + user.encode(), digest_size=ID_BYTES - USER_BYTES).digest()


def families_of(user: str) -> bytes:
    """Returns the bytes with which the names of this user's families begin, and no others. (HSK-38, HSK-43, STO-32)"""
    return blake2b(user.encode(), digest_size=USER_BYTES).digest()


def check_curve() -> None:
    """KeyFileError if this process's libzmq has no CURVE, or one with known holes."""
    if zmq.zmq_version_info() < OLDEST_LIBZMQ:
        raise KeyFileError(
            f"libzmq {zmq.zmq_version()} has known security holes: keys need libzmq 4.3.3 or newer, as the wheels of "
            f"pyzmq have it (pip install --upgrade --force-reinstall --only-binary :all: pyzmq)"
        )
    if not zmq.has("curve"):
        raise KeyFileError(
            "this libzmq was built without CURVE, which keys need: install pyzmq from a wheel "
            "(pip install --force-reinstall --only-binary :all: pyzmq)"
        )
