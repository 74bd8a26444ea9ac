"""The worst that a scheduler can tell a core that holds tasks, with as many of them as it may hold, in one turn.

Steps are instructions of the interpreter, counted: some fifty to a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler_protocol import codes
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import Cancel, Dispatch, Message, Recall, Shutdown, TaskHeader
from scaler_protocol.session import Lost, Received
from tests.support.holder_story import CLIENT, FUNCTION, SCHEDULER, HolderStory, ids
from tests.support.steps import steps_of

QUEUED = 1_000
"""The default of `--worker-task-queue-size`, beyond which no credit is given."""
MOST_STEPS = 400_000
"""Of one turn: eight milliseconds, as for the scheduler."""

#: by name: the message that a core receives for tasks with these ids, and whether it holds them
_MESSAGES: dict[str, tuple[Callable[[bytes], Message], bool]] = {
    "cancel-unknown": (Cancel, False),
    "cancel": (Cancel, True),
    "recall": (Recall, True),
    "shutdown": (lambda _: Shutdown(), True),
}
MESSAGES = ("dispatch", *_MESSAGES)


def _full(story: HolderStory, places: int) -> tuple[Dispatch, bytes]:
    """A Dispatch of so many tasks as this core may hold, and their ids."""
    story._check = lambda: None  # it looks at every task
    count = places + QUEUED
    tasks = ids(*range(1, count + 1))
    return Dispatch(TaskHeader(client=CLIENT), FUNCTION, tasks, b"x" * count, join_u32([1] * count)), tasks


def steps_of_message(name: str, story: HolderStory, places: int, named: int | None = None) -> int:
    """One of MESSAGES, to a core that has just started: about all tasks that it may hold, or the first so many."""
    dispatch, tasks = _full(story, places)
    message: Message = dispatch
    if name != "dispatch":
        make, is_held = _MESSAGES[name]
        message = make(tasks if named is None else tasks[: named * ID_BYTES])
        if is_held:
            story.receive(dispatch)
    return steps_of(story.step, Received(SCHEDULER, 9, message))


def steps_of_loss(story: HolderStory, places: int) -> int:
    """The session with the scheduler ends under all these tasks."""
    story.receive(_full(story, places)[0])
    return steps_of(story.step, Lost(SCHEDULER, codes.LEASE_EXPIRED, "silent", False))
