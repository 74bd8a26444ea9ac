"""What modules beside the core see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scaler_storage.core.actions import Action
    from scaler_storage.core.events import OfPeer
    from scaler_storage.core.limits import CoreLimits
    from scaler_storage.core.objects import ObjectTable
    from scaler_storage.core.pacing import Pacing
    from scaler_storage.core.rights import Rights
    from scaler_storage.core.status import Traffic
    from scaler_storage.core.uploads import UploadTable
    from scaler_storage.core.work import Job, Work


class Parts(Protocol):
    limits: CoreLimits
    objects: ObjectTable
    uploads: UploadTable
    pacing: Pacing
    rights: Rights
    work: Work
    traffic: Traffic

    @property
    def now(self) -> float: ...

    @property
    def memory_bytes(self) -> int: ...

    def act(self, action: Action) -> None: ...

    def perform(self, event: OfPeer) -> Job | None: ...
