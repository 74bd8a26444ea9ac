"""From what people copy to a task: its 32 digits, or the short form that the page, the output and futures show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from scaler.ui.model import Model
from scaler_protocol.ids import ID_BYTES, TaskId, shown_parts


def found_task(model: Model, text: str) -> TaskId | None:
    """None: it is no id, and no task that is shown is called so. Of several with one short form, the latest."""
    try:
        task_id = bytes.fromhex(text)
    except ValueError:
        task_id = b""
    if len(task_id) == ID_BYTES:
        return TaskId(task_id)
    short = shown_parts(text.lower())
    if short is None:
        return None
    source, number = short
    pattern = re.compile(f"{source.hex()}[0-9a-f]{{8}}{number.to_bytes(8, 'little').hex()}")
    for known in _shown_ids(model, pattern):
        if pattern.fullmatch(known):
            return TaskId(bytes.fromhex(known))
    return None


def _shown_ids(model: Model, pattern: re.Pattern[str]) -> Iterator[str]:
    """In hexadecimal digits: of tasks that run, of those of graphs, and of those that ended, which are looked for in
    their texts, because reading 40,000 runs would hold up every page."""
    status = model.state.status
    workers = status.workers if status is not None else ()
    running = (one.task_id.hex() for worker in workers for one in worker.status.processors if one.task_id)
    nodes = (node[0] for graph in model.graphs for node in graph["nodes"])
    return chain(
        running, nodes, model.failures.ids(), _ended(model, re.compile(b'\\["(%s)"' % pattern.pattern.encode()))
    )


def _ended(model: Model, pattern: re.Pattern[bytes]) -> Iterator[str]:
    _, texts = model.runs.read(model.runs.first, model.runs.end, 1 << 62)
    return (found.decode() for text in reversed(texts) for found in reversed(pattern.findall(text)))
