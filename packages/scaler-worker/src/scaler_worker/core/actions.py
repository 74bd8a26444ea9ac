"""What a worker's core can ask for. The shell performs these in order and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Message
from scaler_protocol.records import dataclass

NO_NUMBERS: Mapping[TaskId, int] = {}


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class StartProcessor:
    processor: int


class HandOver(NamedTuple):
    """Append these to the processor's slice, in order. Their `number`s are set.

    `numbers` has those of the tasks that some of these await: of the same order, or the last of the one before.
    """

    processor: int
    tasks: tuple[Task, ...]
    numbers: Mapping[TaskId, int] = NO_NUMBERS
    gpus: tuple[str, ...] | None = None  #: before all else, let the processor see these only; None: it has been told


@dataclass(frozen=True, slots=True)
class Resume:
    """The blocked task may go on; what the processor read before this it has dropped."""

    processor: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Raise in the main thread of task `number`, if that is what the processor is running."""

    processor: int
    number: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Ask for everything the processor has not begun; it answers GaveBack with this serial."""

    processor: int
    serial: int


@dataclass(frozen=True, slots=True)
class AskStack:
    """Where is the task that the processor runs? It answers StackTaken with this serial. (WRK-56)"""

    processor: int
    serial: int


@dataclass(frozen=True, slots=True)
class SampleStacks:
    """All processors look at the stacks of their tasks for so long from now on; zero: not any more. (WRK-61)"""

    seconds: float


@dataclass(frozen=True, slots=True)
class LookAtProcess:
    """What does the operating system tell of this process? Answered by ProcessSeen."""

    processor: int
    process_id: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Let the whole process stand still."""

    processor: int


@dataclass(frozen=True, slots=True)
class Unsuspend:
    processor: int


@dataclass(frozen=True, slots=True)
class KillProcessor:
    """With everything its task has started."""

    processor: int


@dataclass(frozen=True, slots=True)
class GiveBackKept:
    """Forget the values that are kept for tasks to come, also while a task runs."""

    processor: int


@dataclass(frozen=True, slots=True)
class StopProcessor:
    """Idle and not needed: let it leave."""

    processor: int


@dataclass(frozen=True, slots=True)
class Log:
    """One line for people."""

    is_warning: bool
    text: str


@dataclass(frozen=True, slots=True)
class TellStatus:
    """Send a WorkerStatus without waiting for the heartbeat: what blocked tasks lend has changed (SCH-47)."""


@dataclass(frozen=True, slots=True)
class Remember:
    """What the next Hello tells of the scheduler, besides what was in its Welcome. (HSK-35)"""

    generation: int


@dataclass(frozen=True, slots=True)
class AwaitAcknowledgement:
    """Tell when the scheduler has all that was sent until now."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is held any more: say Bye and exit."""

    text: str
    is_failure: bool = False


Action = (
    Send | StartProcessor | HandOver | Resume | Interrupt | Reclaim | AskStack | SampleStacks | LookAtProcess | Suspend
    | Unsuspend | KillProcessor | GiveBackKept | StopProcessor | Log | TellStatus | Remember | AwaitAcknowledgement
    | Finish
)  # fmt: skip
