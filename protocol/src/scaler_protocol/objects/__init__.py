"""The way to the object storage for everybody who is not one: blocking calls for any number of threads (spec STO)."""

from scaler_protocol.ids import NO_OWNER, Owner
from scaler_protocol.objects.client import ObjectClient, PendingPut

__all__ = ["NO_OWNER", "ObjectClient", "Owner", "PendingPut"]
