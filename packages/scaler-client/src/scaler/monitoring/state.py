"""What a watcher knows: plain values, made anew with each message."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

from scaler_protocol.messages import ClusterStatus, Message


class Condition(Enum):
    """How a watcher stands with its scheduler."""

    CONNECTING = "connecting"  #: no status has arrived yet
    LIVE = "live"  #: statuses arrive
    SILENT = "silent"  #: statuses have arrived, and no more do
    ENDED = "ended"  #: the recording that is played is over


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the stream, as it came."""

    topic: str  #: "status", "tasks"; "snapshot" for the answer to a request of ours
    message: Message  #: as published, or the answer
    at: float  #: by the watcher's monotonic clock
    #: seconds of the epoch; when it was recorded, if it is played back
    wall_at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The last status of a cluster, and whether it is still true. A new value is made for each change."""

    address: str  #: as it was asked for
    condition: Condition = Condition.CONNECTING  #: how the watcher stands with the scheduler
    text: str = ""  #: for people: what is wrong and what to do; empty while LIVE
    status: ClusterStatus | None = None  #: the last one, also while SILENT
    heard_at: float = 0.0  #: when that was, by the watcher's monotonic clock
    missed_count: int = 0  #: publications that were lost on the way
    restart_count: int = 0  #: how often another scheduler has taken over the address since the watcher began

    @property
    def is_live(self) -> bool:
        """Whether the condition is LIVE."""
        return self.condition is Condition.LIVE

    def counts(self) -> dict[str, int]:
        """Tasks by state, empty before the first status."""
        return {count.name: count.value for count in self.status.task_counts} if self.status else {}
