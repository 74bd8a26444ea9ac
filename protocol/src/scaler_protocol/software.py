"""What a process says about itself in its Hello or Welcome: for people and logs only (HSK-8)."""

from __future__ import annotations

import os
import platform
import socket

from scaler_protocol import __version__
from scaler_protocol.messages import Software


def this_software(name: str, version: str = __version__) -> Software:
    """`name` and `version` are the distribution's, since each part of Scaler may have another version. The default is
    the version of the protocol's own, for what talks through it alone."""
    return Software(
        name=name,
        version=version,
        language=f"Python {platform.python_version()}",
        host=socket.gethostname(),
        process_id=os.getpid(),
    )
