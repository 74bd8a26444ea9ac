"""Identities that nobody else has."""

from __future__ import annotations

import hashlib
import secrets
import struct


def new_id() -> bytes:
    return secrets.token_bytes(16)


def routing_id() -> bytes:
    return bytes((1 + secrets.randbelow(255),)) + secrets.token_bytes(15)


def content_id(content: bytes) -> bytes:
    """STO-2."""
    return hashlib.blake2b(content, digest_size=16).digest()


def result_id(task: bytes, attempt: int, salt: bytes = b"", client: bytes = b"") -> bytes:
    """OWN-6."""
    return content_id(task + struct.pack("<H", attempt) + salt + (client if salt else b""))


def named_function(name: str) -> bytes:
    """The bytes that name a function every conforming worker knows (chapter 08)."""
    return f"name:{name}".encode()
