"""The protocol of Scaler: messages, codec, sessions and transport (see `protocol/spec/`)."""

import sys

__version__ = "0.1.0"

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # Threads of a program and of the client share state that relies on single steps of the interpreter.
    raise ImportError(
        "Scaler does not run without the GIL: start this free-threaded Python with PYTHON_GIL=1 in its environment, or "
        "with -X gil=1"
    )
