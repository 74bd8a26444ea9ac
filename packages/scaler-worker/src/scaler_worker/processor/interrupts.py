"""When an interrupt must not be raised yet, or was lost: the same signal once more, a moment later."""

from __future__ import annotations

import _thread
import os
import time
from types import FrameType

from scaler_protocol.objects import link
from scaler_protocol.transport import blocking
from scaler_worker.zygote import SIGNAL_NUMBER

AGAIN_SECONDS = 0.02

_WHOLE = frozenset(("<frozen importlib._bootstrap>", link.__file__, blocking.__file__))
"""Code that is not cut off, with all that it calls. An import cannot always be repeated: extension modules such as
numpy's refuse, and the processor would be of no more use to tasks that need them. A client's session is shared by the
tasks of a processor, and an interrupted turn would replace it for all of them: a turn is short. A connection to the
storage is left in order where it sleeps, which is all that takes long there."""

_SLEEPS = frozenset((link.Link.sleep.__code__, blocking.BlockingDriver.sleep.__code__))


def can_interrupt(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code not in _SLEEPS:
        if frame.f_code.co_filename in _WHOLE:
            return False
        frame = frame.f_back
    return True


def signal_again() -> None:
    """Safe in a destructor, where `threading.Thread` might wait for a lock that the code around it holds."""
    _thread.start_new_thread(_signal_later, ())


def _signal_later() -> None:
    time.sleep(AGAIN_SECONDS)
    os.kill(os.getpid(), SIGNAL_NUMBER)
