"""How a role holds a peer back that sends more than the role works off (SES-33, SES-34).

A server cannot leave one peer's messages in its socket and read those of the others. What it must not take yet it
treats as lost on the way: the dialer keeps every message that is not acknowledged, and sends it again when it resumes.
So nothing is lost, the dialer waits, and what the server keeps is bounded.
"""

from __future__ import annotations

from scaler_protocol.ids import PeerId


class Gate:
    """Open for all peers and all messages. A role that keeps messages for later has one of its own."""

    __slots__ = ("is_strained",)

    def __init__(self) -> None:
        #: some peer may be held back. It is looked at for every message; the methods only while it is true
        self.is_strained = False

    def admits(self, peer_id: PeerId, size: int) -> bool:
        """Whether the next message of this peer, of so many bytes, is taken now."""
        return True

    def is_relieved(self, peer_id: PeerId) -> bool:
        """Whether a peer that was held back may go on."""
        return True
