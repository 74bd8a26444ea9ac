"""What happens to the core: the events of its sessions, and the passing of time."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import PutShared
from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core.values import SharedFile


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing but time has passed. Due at `next_deadline()`; harmless at any other moment."""


@dataclass(frozen=True, slots=True)
class FileOffered:
    """A PutShared, and its file: already opened and checked, or the reason why not."""

    peer_id: PeerId
    put: PutShared
    file: SharedFile | str


Event = FileOffered | Opened | Received | Lost | Tick
