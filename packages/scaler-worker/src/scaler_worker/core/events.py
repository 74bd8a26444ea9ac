"""What can happen to a worker. With `Opened`, `Received` and `Lost` of the session these are all of it."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened, Received

TaskEnd = tuple[int, int, int, float, bytes, bytes]
"""How one task ended, as its processor says: number, status (SUCCESS, FAILED or INTERRUPTED), kind, busy seconds,
value, profile. A bare tuple, because there is one for every task."""

INTERRUPTED = 255
"""Between agent and processor only: the task gave way to an interrupt. Why it was interrupted, the agent knows."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first event: the worker may start its processors."""


@dataclass(frozen=True, slots=True)
class ProcessorReady:
    processor: int
    process_id: int


class TasksEnded(NamedTuple):
    """What one processor reported in one read, in order."""

    processor: int
    ends: list[TaskEnd]


@dataclass(frozen=True, slots=True)
class TaskBlocked:
    """The task waits for children. Its processor has dropped everything it was handed after it."""

    processor: int
    number: int


@dataclass(frozen=True, slots=True)
class ResumeWanted:
    processor: int


@dataclass(frozen=True, slots=True)
class GaveBack:
    """The answer to Reclaim: everything handed over after `number` was dropped; 0 when nothing was running."""

    processor: int
    serial: int
    number: int


@dataclass(frozen=True, slots=True)
class StackTaken:
    """The answer to AskStack, of task `number`; 0 when none was running."""

    processor: int
    serial: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class StacksSampled:
    """Trees of calls: where the time of this processor's tasks went. It has written them, so they are foreign."""

    processor: int
    trees: bytes


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """The answer to LookAtProcess: for people."""

    processor: int
    text: str


@dataclass(frozen=True, slots=True)
class TaskPrinted:
    processor: int
    number: int
    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class ProcessorBroken:
    """It wrote what no processor writes: user code has got at its channel."""

    processor: int
    text: str


@dataclass(frozen=True, slots=True)
class ProcessorExited:
    """After everything it wrote has been handled. `exit_code` is minus the signal when one ended it."""

    processor: int
    exit_code: int
    peak_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryRead:
    """How much memory a processor has, with what its tasks have started, and without what is shared with others. Of
    that, the values that it keeps for tasks to come."""

    processor: int
    used_bytes: int
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BegunSeen:
    """The last task that the processor has begun, and when; 0: none."""

    processor: int
    number: int
    begun_at: float


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The operator wants this worker to leave (SIGTERM)."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The scheduler has all that was sent, as `AwaitAcknowledgement` wanted to know."""


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Everything that was ready has been handled: what piled up may leave, and what is due is done."""


Event = (
    Opened | Received | Lost | Started | ProcessorReady | TasksEnded | TaskBlocked | ResumeWanted | GaveBack
    | StackTaken | StacksSampled | ProcessSeen | TaskPrinted | ProcessorBroken | ProcessorExited | MemoryRead
    | BegunSeen | DrainRequested | Acknowledged | RoundEnded
)  # fmt: skip
