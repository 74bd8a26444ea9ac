"""Finding a port."""

from __future__ import annotations

from scaler_protocol.process.ports import free_ports


def get_available_tcp_port(hostname: str = "127.0.0.1") -> int:
    """A port that is free now. Another program may take it before yours does."""
    return free_ports(1, hostname)
