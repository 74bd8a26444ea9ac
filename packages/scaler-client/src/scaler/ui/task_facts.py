"""What a page is told of one task, from the answer of the scheduler (MON-55 to MON-57, MON-62)."""

from __future__ import annotations

from typing import Any

from scaler.client.futures.explaining import children_of
from scaler.ui.events import failure_of
from scaler_protocol.messages import Explanation

_OF_THE_END = ("status", "at", "lasted", "cpu", "memory", "type", "line", "text")


def facts_of(found: Explanation, at: float) -> dict[str, Any]:
    """Empty: the scheduler knows nothing of this task, or is an earlier one, and does not tell."""
    record = found.record
    if not record.task_id:
        return {}
    facts = failure_of(record, found.function_name, at)
    if found.state:
        facts = {name: value for name, value in facts.items() if name not in _OF_THE_END}
        facts.update(status=found.state, worker=found.worker)
        if found.is_begun:
            facts.update(begun=at - found.running_seconds)
    children = [{"task": child.hex(), "state": state} for child, state in children_of(found)]
    return {**facts, "children": children, "childCount": found.child_count}
