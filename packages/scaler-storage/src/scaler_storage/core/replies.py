"""What a storage says to a request: done, or why not."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ObjectReply
from scaler_storage.core.actions import Action, Send
from scaler_storage.core.refusals import Refusal


class Replies:
    def __init__(self) -> None:
        self._actions: list[Action] = []

    def _confirm(self, peer_id: PeerId, request_id: int) -> None:
        self._actions.append(Send(peer_id, ObjectReply(request_id)))

    def _confirm_release(self, peer_id: PeerId, request_id: int) -> None:
        if request_id != 0:
            self._confirm(peer_id, request_id)

    def _refuse(self, peer_id: PeerId, request_id: int, refusal: Refusal) -> None:
        self._actions.append(Send(peer_id, ObjectReply(request_id, refusal.code, refusal.text)))
