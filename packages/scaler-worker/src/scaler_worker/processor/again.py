"""When an interrupt must not be raised yet, or was lost: the same signal once more, a moment later."""

from __future__ import annotations

import _thread
import os
import time
from types import FrameType

from scaler_worker.zygote import SIGNAL_NUMBER

AGAIN_SECONDS = 0.02


def signal_again() -> None:
    """Safe in a destructor, where `threading.Thread` might wait for a lock that the code around it holds."""
    _thread.start_new_thread(_signal_later, ())


def _signal_later() -> None:
    time.sleep(AGAIN_SECONDS)
    os.kill(os.getpid(), SIGNAL_NUMBER)


def is_importing(frame: FrameType | None) -> bool:
    """An import that was cut off cannot always be repeated: extension modules such as numpy's refuse, and the processor
    would be of no more use to tasks that need them."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
