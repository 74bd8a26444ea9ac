"""What a watcher knows: plain values, made anew with each message."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

from scaler_protocol.messages import ClusterStatus, Message


class Condition(Enum):
    CONNECTING = "connecting"  #: nothing was heard yet
    LIVE = "live"
    SILENT = "silent"  #: it was heard, and is not any more
    ENDED = "ended"  #: it was a recording, and that is over


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the stream, as it came."""

    topic: str  #: "status", "tasks"; "snapshot" for the answer to a request of ours
    message: Message
    at: float  #: by the watcher's monotonic clock
    #: seconds of the epoch; when it was recorded, if it is played back
    wall_at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class ClusterState:
    address: str  #: as it was asked for
    condition: Condition = Condition.CONNECTING
    text: str = ""  #: for people: what is wrong and what to do; empty while LIVE
    status: ClusterStatus | None = None  #: the last one, also while SILENT
    heard_at: float = 0.0  #: when that was, by the watcher's monotonic clock
    missed_count: int = 0  #: publications that were lost on the way
    restart_count: int = 0  #: how often another scheduler has taken over the address since the watcher began

    @property
    def is_live(self) -> bool:
        return self.condition is Condition.LIVE

    def counts(self) -> dict[str, int]:
        """Tasks by state, empty before the first status."""
        return {count.name: count.value for count in self.status.task_counts} if self.status else {}
