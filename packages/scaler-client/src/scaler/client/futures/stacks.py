"""Where a running task is in its code: the record that `client.stack(future)` returns, and the sentences of it."""

from __future__ import annotations

import time

from scaler_protocol import codes
from scaler_protocol.messages import StackReply
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class TaskStack:
    """`str()` of it is for people. (SCH-93)"""

    text: str = ""
    """The stack, the call of the task's function first, and then those of its process's other threads. Empty: `reason`
    says why there is none."""
    taken_at: float = 0.0
    """When the answer came, in seconds since 1970, by the clock of this host."""
    worker: str = ""
    """The name of the worker that has the task; empty if none has it."""
    state: str = ""
    """"running"; "blocked": it waits for tasks that it has submitted; "canceling"; "waiting": for tasks that it depends
    on; "queued"; "dispatched": a worker has it and has not begun it; "ended"; empty: not known."""
    running_seconds: float = 0.0
    """For how long it has been running. Zero if it does not run."""
    reason: str = ""
    """Why there is no stack: one sentence. Empty if there is one."""

    def __str__(self) -> str:
        if not self.text:
            return self.reason
        place = f"on worker {self.worker} for {self.running_seconds:.1f} s"
        return f"{_DOES.get(self.state, 'running')} {place}\n{self.text}"


_DOES = {"blocked": "waiting for tasks that it has submitted,", "canceling": "being canceled"}


def without_stack(reason: str, state: str = "", worker: str = "", running_seconds: float = 0.0) -> TaskStack:
    return TaskStack("", time.time(), worker, state, running_seconds, reason)


def stack_of(reply: StackReply | str) -> TaskStack:
    """For people. A text: why there is no reply."""
    if isinstance(reply, str):
        return without_stack(reply)
    outcome, state = reply.outcome, reply.state
    if outcome in (codes.STACK_TAKEN, codes.STACK_NO_ANSWER) and state == "dispatched":
        state = "blocked" if reply.is_blocked else "running"
    if outcome == codes.STACK_TAKEN:
        return TaskStack(reply.text, time.time(), reply.worker, state, reply.running_seconds)
    if outcome == codes.STACK_NOT_RUNNING and not state:
        state = "ended"
    return without_stack(_reason(reply), state, reply.worker, reply.running_seconds)


def _reason(reply: StackReply) -> str:
    known = {
        codes.STACK_UNKNOWN: "the scheduler holds no such task: it has ended, or is another client's",
        codes.STACK_NOT_ALLOWED: "the operator of this scheduler lets monitors see no texts (--monitor-texts); "
        "client.stack(future) asks for the stack of a task of one's own",
        codes.STACK_TOO_MANY: "too many questions for stacks are being answered: ask again in a moment",
        codes.STACK_NOT_SUPPORTED: f"worker {reply.worker} does not tell stacks: it is of an earlier version",
    }
    if reply.outcome == codes.STACK_NOT_RUNNING:
        return _NOT_RUNNING.get(reply.state, "it does not run: it has ended meanwhile")
    if reply.outcome == codes.STACK_NO_ANSWER:
        return _no_answer(reply)
    return known.get(
        reply.outcome, f"the scheduler gives no stack, for a reason that is not known here ({reply.outcome})"
    )


_NOT_RUNNING = {
    "waiting": "it does not run: it waits for tasks that it depends on",
    "queued": "it does not run: it is queued",
    "dispatched": "it does not run: its worker has it, and has not begun it",
    "canceling": "it does not run: it is being canceled",
}


def _no_answer(reply: StackReply) -> str:
    """The process is only told of when the worker itself has answered."""
    if reply.running_seconds <= 0:
        return f"{reply.process or 'its worker has not answered'}: worker {reply.worker}"
    return (
        "it did not answer within 2 s: it is in code that does not let the interpreter go, such as a long call of "
        "compiled code, or its host is too busy; it has been on worker "
        f"{reply.worker} for {reply.running_seconds:.1f} s; {reply.process}"
    )
