"""What the session cases of both sides talk about."""

from __future__ import annotations

from scaler_protocol import codes
from scaler_protocol.codec import Envelope, decode
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Cancel, CancelReply, Hello, Software
from scaler_protocol.session.channel import Frames

PEER = PeerId(b"p" * 16)
SERVER_ID = PeerId(b"s" * 16)
HELLO = Hello(
    version_min=1, version_max=1, role=codes.ROLE_CLIENT, peer_id=PEER, software=Software("scaler-client", "9")
)
CANCEL = Cancel(ids=b"t" * 16)
REPLY = CancelReply(ids=b"t" * 16, outcomes=b"\0")


def decoded(frames: Frames) -> Envelope:
    return decode(bytes(frames[0]), frames[1:])
