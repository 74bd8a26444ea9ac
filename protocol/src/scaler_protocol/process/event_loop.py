"""Which event loop a server runs on: `builtin` is asyncio's own, `uvloop` the faster one where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from scaler_protocol.process.failures import UsageError

if TYPE_CHECKING:
    import asyncio

EVENT_LOOPS = ("builtin", "uvloop")


def check_event_loop(name: str) -> None:
    """Raises UsageError, with the remedy, for a loop that this Python does not have."""
    if name not in EVENT_LOOPS:
        raise UsageError(f"there is no event loop called {name!r}; choose one of: {', '.join(EVENT_LOOPS)}")
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise UsageError("uvloop is not installed: run `pip install uvloop`, or leave out --event-loop uvloop")


def new_event_loop(name: str) -> asyncio.AbstractEventLoop:
    """A fresh loop of this kind. asyncio is imported here, not above: clients import this package too. (DESIGN §5)"""
    check_event_loop(name)
    if name == "uvloop":
        uvloop: Any = importlib.import_module("uvloop")
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop
    if sys.platform == "linux":
        from scaler_protocol.process.server_loop import ServerLoop

        return ServerLoop()
    import asyncio

    return asyncio.new_event_loop()
