"""Finding a port."""

from __future__ import annotations

import socket


def get_available_tcp_port(hostname: str = "127.0.0.1") -> int:
    """A port that is free now. Somebody else may take it before you do."""
    with socket.socket() as probe:
        probe.bind((hostname, 0))
        port: int = probe.getsockname()[1]
        return port
