"""What a person has a scheduler do: an id that is typed, a question, and what came of it (MON-49). Pure.

`entered` and `answered` return the message to send, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.monitoring.control import CANCEL_SECONDS, DRAIN_SECONDS, outcome_text, peers_named
from scaler.top.formats import plain
from scaler_protocol.codes import CONTROL_CANCEL_CLIENT, CONTROL_CANCEL_TASK, CONTROL_DRAIN_WORKER
from scaler_protocol.ids import ID_BYTES, TaskId, shown_parts, shown_task
from scaler_protocol.messages import (
    NO_TASK,
    ClusterStatus,
    Control,
    ControlReply,
    Error,
    Explain,
    Explanation,
    Message,
    WorkerEntry,
)

MOST_LETTERS = 60


class Orders:
    """One at a time: its id is typed, then it waits for a yes, then for its answer."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        #: what has been typed of an id; None: nothing is being typed
        self.typed: str | None = None
        #: what waits for a yes
        self._wanted: Control | None = None
        #: a question about a task that is on its way, or the order itself
        self._asked: Explain | Control | None = None
        self._said = ""

    @property
    def is_asking(self) -> bool:
        """The next key is yes or no."""
        return self._wanted is not None

    @property
    def line(self) -> str:
        if self.typed is not None:
            return f"cancel which task, or all tasks of which client? its id: {self.typed}_"
        return self._said

    def cancel(self) -> None:
        self.leave()
        self.typed = ""

    def drain(self, worker: WorkerEntry) -> None:
        name = plain(worker.name or worker.peer_id.hex())
        self._confirm(CONTROL_DRAIN_WORKER, worker.peer_id, DRAIN_SECONDS, f"let worker {name} finish and leave?")

    def type(self, letters: str) -> None:
        if self.typed is not None and letters.isprintable():
            self.typed = (self.typed + letters)[:MOST_LETTERS]

    def erase(self) -> None:
        if self.typed is not None:
            self.typed = self.typed[:-1]

    def entered(self, status: ClusterStatus | None) -> Message | None:
        """The id is there: a task's in either form, or the first digits of a client's."""
        text, self.typed = (self.typed or "").strip().lower(), None
        short = shown_parts(text)
        if short is not None:
            self._asked = Explain(next(self._numbers), NO_TASK, *short)
            return self._asked
        clients = peers_named(status, CONTROL_CANCEL_CLIENT, text)
        if len(clients) == 1:
            question = f"cancel all unfinished tasks of client {clients[0].hex()[:8]}?"
            self._confirm(CONTROL_CANCEL_CLIENT, clients[0], CANCEL_SECONDS, question)
        elif _is_task(text):
            self._confirm_task(TaskId(bytes.fromhex(text)), "")
        elif text:
            self._said = f"no task and no client is called {plain(text)}; a task is called like 648752af:9"
        return None

    def answered(self, *, is_yes: bool) -> Message | None:
        wanted, self._wanted = self._wanted, None
        self._asked = wanted if is_yes else None
        self._said = "..." if is_yes else "nothing was done"
        return self._asked

    def leave(self) -> None:
        self.typed = self._wanted = self._asked = None
        self._said = ""

    def heard(self, message: Message) -> None:
        """In any order: only what was asked for last counts."""
        asked = self._asked
        if asked is None:
            return
        if isinstance(message, Error):
            self._asked = None
            self._said = f"the scheduler refuses this, perhaps because it is older: {plain(message.text)}"
        elif isinstance(message, (Explanation, ControlReply)) and message.request_id == asked.request_id:
            self._asked = None
            if isinstance(asked, Control) and isinstance(message, ControlReply):
                self._said = outcome_text(asked, message)
            elif isinstance(message, Explanation) and message.task_id:
                self._confirm_task(message.task_id, message.function_name)
            else:
                self._said = "nothing was done: the scheduler has no unfinished task of this id"

    def _confirm_task(self, task_id: TaskId, function: str) -> None:
        of = f" of {plain(function)}" if function else ""
        self._confirm(CONTROL_CANCEL_TASK, task_id, CANCEL_SECONDS, f"cancel task {shown_task(task_id)}{of}?")

    def _confirm(self, action: int, subject: bytes, seconds: float, question: str) -> None:
        self._wanted = Control(next(self._numbers), action, subject, seconds)
        self._said = f"{question} y: yes, any other key: no"


def _is_task(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == ID_BYTES
    except ValueError:
        return False
