"""How many answers a scheduler leaves unread before it holds a client back (LIM-13, LIM-16).

A client that submits tasks and cancels them causes Results and CancelReplies without any work of a worker, so neither
credit nor its window (SCH-46) slows it down. A client with a full window of results, which cancels little, is charged
with the little.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler_protocol.ids import PeerId
from scaler_protocol.session.gate import Intake, Unread

#: Of one client, and of all clients together. Beyond the second, of one client only the third.
ANSWERS_BYTES = 8 * 1024 * 1024
ALL_ANSWERS_BYTES = 32 * 1024 * 1024
LEAST_ANSWERS_BYTES = 1024 * 1024


def intake(kept: Callable[[PeerId], int]) -> Intake:
    return Intake(Unread(kept, ANSWERS_BYTES, ALL_ANSWERS_BYTES, LEAST_ANSWERS_BYTES))
