"""The stack of the running task as text, made in a signal handler between two bytecodes of that task (WRK-57).

Names of files and functions, and lines of code; never the value of a variable. Nothing here takes a lock that the
interrupted code may hold, and whatever goes wrong stays here: it is no business of the task.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections import deque
from types import FrameType

from scaler_protocol.running import ends
from scaler_worker.processor.sampling import own_threads

TEXT_BYTES = 64 * 1024
INNERMOST = 96
OUTERMOST = 32
"""Frames of a deeper stack that are shown: the last calls, and the first ones of the task."""
DEEPEST = 1_000_000
THREADS = 16
THREAD_FRAMES = 32
LINE_CHARACTERS = 200

_OURS = frozenset((os.path.join(os.path.dirname(__file__), "loop.py"), ends.__file__))
"""Below the function of the task."""
_OUR_THREADS = "scaler-"


def stack_text(frame: FrameType | None) -> str:
    """Of the task, whose thread is the one that asks, and of the other threads of its process."""
    try:
        known = frozenset(linecache.cache)
        lines = ["the task's thread:", *_lines(frame, OUTERMOST, INNERMOST)]
        lines += _other_threads()
        for name in linecache.cache.keys() - known:
            del linecache.cache[name]
        return _cut("\n".join(lines) + "\n")
    except Exception as error:  # noqa: BLE001 - such as a RecursionError of a task that is as deep as it may be
        return f"the stack could not be read: {type(error).__name__}\n"


def _other_threads() -> list[str]:
    own, lines = threading.get_ident(), []
    known = getattr(threading, "_active", {})  # enumerate() takes a lock
    frames = (
        (ident, frame) for ident, frame in sys._current_frames().items() if ident != own and ident not in own_threads
    )
    named = [(getattr(known.get(ident), "name", "without a name"), frame) for ident, frame in frames]
    others = [(name, frame) for name, frame in named if not name.startswith(_OUR_THREADS)]
    for name, frame in others[:THREADS]:
        lines += [f"thread {name}:", *_lines(frame, 0, THREAD_FRAMES)]
    if len(others) > THREADS:
        lines.append(f"... and {len(others) - THREADS} threads more")
    return lines


def _lines(frame: FrameType | None, outermost: int, innermost: int) -> list[str]:
    """The outermost call first."""
    last: list[FrameType] = []
    first: deque[FrameType] = deque(maxlen=outermost)
    count = 0
    while frame is not None and frame.f_code.co_filename not in _OURS and count < DEEPEST:
        if count < innermost:
            last.append(frame)
        else:
            first.append(frame)
        count += 1
        frame = frame.f_back
    lines = [_line(one) for one in reversed(first)]
    if count > len(first) + len(last):
        lines.append(f"  ... {count - len(first) - len(last)} calls in between")
    lines += [_line(one) for one in reversed(last)]
    return lines or ["  (none: it runs no code of its own at the moment)"]


def _line(frame: FrameType) -> str:
    code, number = frame.f_code, frame.f_lineno or 0
    source = linecache.getline(code.co_filename, number).strip()[:LINE_CHARACTERS]
    place = f'  File "{code.co_filename}", line {number}, in {code.co_name}'
    return f"{place}\n    {source}" if source else place


def _cut(text: str) -> str:
    """The middle of a text that is too long is left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= TEXT_BYTES:
        return data.decode("utf-8", "replace")
    half = TEXT_BYTES // 2 - 32
    return data[:half].decode("utf-8", "ignore") + "\n  ... left out ...\n" + data[-half:].decode("utf-8", "ignore")
