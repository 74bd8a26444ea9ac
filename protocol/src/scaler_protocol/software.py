"""What a process says about itself in its Hello or Welcome: for people and logs only (HSK-8)."""

from __future__ import annotations

import os
import platform
import socket

from scaler_protocol import __version__
from scaler_protocol.messages import Software


def this_software(name: str) -> Software:
    """`name` is the distribution's, such as "scaler-client"."""
    return Software(
        name=name,
        version=__version__,
        language=f"Python {platform.python_version()}",
        host=socket.gethostname(),
        process_id=os.getpid(),
    )
