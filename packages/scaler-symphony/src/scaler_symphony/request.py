"""A task on its way to a service instance."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.holding.tasks import Parts

FORMAT = 3


class Request(NamedTuple):
    """All plain values: two versions of this dist may meet here, and the first field tells them so."""

    format: int
    task_id: bytes
    attempt: int
    client: bytes
    call_format: int
    keywords: tuple[str, ...]
    serializer: bytes
    depth: int
    priority: int
    flags: int
    result_salt: bytes
    owner_grant: bytes
    timeout_seconds: float
    function: bytes
    parts: Parts
    brought: dict[bytes, bytes]
    scheduler_address: str
    storage_address: str
    inline_bytes: int
    modules: tuple[str, ...]
    key_file: str
    """Where the host has a worker's ticket; empty: where it is found. Only its name travels."""
    is_insecure: bool
