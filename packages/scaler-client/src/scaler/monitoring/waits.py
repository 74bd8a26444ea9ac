"""How long a task has waited, in one sentence: for other tasks, in the queue, and at its worker (MON-62)."""

from __future__ import annotations

from scaler.client.futures.ended import duration_text
from scaler_protocol.messages import Explanation

SHORTEST_SECONDS = 0.001
"""Less is no wait: workers and schedulers do what has come in turns, and the run is timed by another clock."""


def waits_text(explanation: Explanation) -> str:
    """Since when the scheduler has the task, its waits that are over, and the last if the task has not begun. Empty: an
    earlier scheduler, or one that does not know."""
    record = explanation.record
    submitted, dispatched = record.submitted_seconds, record.dispatched_seconds
    if not submitted:
        return ""
    waits = [(submitted - record.ready_seconds, "for other tasks")] if record.ready_seconds else []
    if dispatched and record.attempt <= 1:
        waits.append(((record.ready_seconds or submitted) - dispatched, "in the queue"))
    begun = begun_seconds(explanation)
    if dispatched and begun:
        waits.append((dispatched - begun, "at the worker"))
    told = [f"{duration_text(seconds)} {where}" for seconds, where in waits if seconds >= SHORTEST_SECONDS]
    text = f"it was submitted {duration_text(submitted)} ago"
    if dispatched and explanation.state and not begun:
        text += f" and dispatched {duration_text(dispatched)} ago"
    return f"{text}, and waited {_listed(told)}" if told else text


def begun_seconds(explanation: Explanation) -> float:
    """How long ago its last run began; zero: it has not, or nothing was measured."""
    record = explanation.record
    if explanation.state:
        return explanation.running_seconds if explanation.is_begun else 0.0
    return record.age_seconds + record.duration_seconds if record.duration_seconds else 0.0


def _listed(texts: list[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
