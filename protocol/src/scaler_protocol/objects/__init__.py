"""The way to the object storage for all other roles: blocking calls for any number of threads (spec STO)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler_protocol.ids import NO_OWNER, Owner

if TYPE_CHECKING:
    from scaler_protocol.objects.client import ObjectClient, PendingGet, PendingPut

__all__ = ["NO_OWNER", "ObjectClient", "Owner", "PendingGet", "PendingPut"]


def __getattr__(name: str) -> Any:
    if name in ("ObjectClient", "PendingGet", "PendingPut"):
        # The storage itself starts without.
        from scaler_protocol.objects import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
