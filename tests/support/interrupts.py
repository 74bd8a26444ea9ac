"""Interrupts at chosen places: an exception comes up in this thread where the interpreter could run a signal's handler.

These places are: after a call has returned, at the begin of a function, and when a loop goes back to its top. Unlike a
signal, the n-th of them is always the same one.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

PACKAGES = ("/scaler/", "/scaler_protocol/", "/concurrent/futures/", "/threading.py")
"""Interrupts come up in files with one of these in their path; so a test's own lines are never cut."""


class Cut(KeyboardInterrupt):
    """What comes up."""


class Places:
    """Counts the places that a thread comes by, and raises at one of them, or calls a function there."""

    def __init__(
        self, raise_at: int | None, packages: Sequence[str] = PACKAGES, handler: Callable[[], object] | None = None
    ) -> None:
        self.count = 0
        self.has_raised = False
        self._raise_at = raise_at
        self._packages = packages
        self._handler = handler
        #: where each frame's last instruction was
        self._previous: dict[FrameType, int] = {}

    def begin(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not any(package in frame.f_code.co_filename.replace("\\", "/") for package in self._packages):
            return None
        frame.f_trace = self._step  # before the next line, which has no effect without it from Python 3.13 on
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if event == "opcode":
            before, self._previous[frame] = self._previous.get(frame), frame.f_lasti
            # A begin is the first instruction, and not the call: a generator that is closed is called, too, and goes
            # on where its exception is caught.
            if before is None or _is_place(frame.f_code, before, frame.f_lasti):
                self._pass()
        elif event == "exception":  # no signal's handler runs where it comes through
            self._previous[frame] = -1
        else:
            self._previous.pop(frame, None)
        return self._step

    def _pass(self) -> None:
        self.count += 1
        if self.count == self._raise_at:
            self.has_raised = True
            if self._handler is None:
                raise Cut(f"at place {self.count}")
            self._handler()  # nothing is traced in there


@cache
def _names(code: CodeType) -> dict[int, str]:
    return {one.offset: one.opname for one in dis.get_instructions(code)}


@cache
def _handlers(code: CodeType) -> dict[int, int]:
    """By offset: where the code goes on after an exception. Before Python 3.11 there is no table of that."""
    parse = getattr(dis, "_parse_exception_table", lambda _: ())
    return {at: entry.target for entry in reversed(parse(code)) for at in range(entry.start, entry.end)}


def _is_place(code: CodeType, before: int, now: int) -> bool:
    """A real exception would come up in the instruction before, ours does in the one to come: unless both are caught
    alike, it would be one that cannot be."""
    name = _names(code).get(before, "")
    is_call = name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")  # which calls nothing
    if not is_call and name not in ("JUMP_BACKWARD", "JUMP_ABSOLUTE"):
        return False
    handlers = _handlers(code)
    return handlers.get(before) == handlers.get(now)


@contextmanager
def interrupted_at(
    place: int | None, packages: Sequence[str] = PACKAGES, handler: Callable[[], object] | None = None
) -> Iterator[Places]:
    """Raises `Cut` in this thread at this place of the body, of those in these files, or calls the handler there; None
    only counts."""
    places = Places(place, packages, handler)
    before = sys.gettrace()
    # In Python 3.12 `settrace` looks whether any frame traces each instruction: one that begins to later sees none.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(places.begin)
    try:
        yield places
    finally:
        sys.settrace(before)
