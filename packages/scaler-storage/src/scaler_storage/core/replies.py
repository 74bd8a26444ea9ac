"""What a storage says to a request: done, or why not."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Message, ObjectReply
from scaler_storage.core.actions import Action, Send
from scaler_storage.core.refusals import Refusal
from scaler_storage.core.work import Work

#: What an answer takes until it is read, besides what it says.
_ANSWER_BYTES = 330


def answer_bytes(text: str) -> int:
    """What an answer with this text is charged with. (SES-35)"""
    return _ANSWER_BYTES + len(text)


class Replies:
    work: Work

    def __init__(self) -> None:
        self._actions: list[Action] = []

    def _answer(self, peer_id: PeerId, message: Message, text: str = "") -> None:
        self.work.pressure.answered(peer_id, answer_bytes(text))
        self._actions.append(Send(peer_id, message))

    def _confirm(self, peer_id: PeerId, request_id: int) -> None:
        self._answer(peer_id, ObjectReply(request_id))

    def _confirm_release(self, peer_id: PeerId, request_id: int) -> None:
        if request_id != 0:
            self._confirm(peer_id, request_id)

    def _refuse(self, peer_id: PeerId, request_id: int, refusal: Refusal) -> None:
        self._answer(peer_id, ObjectReply(request_id, refusal.code, refusal.text), refusal.text)
