"""Ports of this host for servers that are started here."""

from __future__ import annotations

import os
import secrets
import socket

from scaler_protocol.addresses import parse_address

#: Below what any system takes for outgoing connections (Linux from 32768, others from 49152). From there a port may be
#: another program's connection before its server listens. Worse: a client that dials such a port of its own host too
#: early can be given that very port by the kernel. It is then connected to itself, and keeps the server out.
_PORTS = range(16_384, 32_760)
_TRIES = 200
_PROBE_SECONDS = 0.5


def free_ports(count: int, host: str = "127.0.0.1") -> int:
    """The first of so many ports in a row that are free there now. Raises OSError when none are found."""
    for _ in range(_TRIES):
        port = _PORTS.start + secrets.randbelow(len(_PORTS) - count)
        if all(is_free(port + number, host) for number in range(count)):
            return port
    raise OSError(f"no {count} free ports in a row were found on {host}: give an address")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether one could listen there now, as a server does that restarts: what is only in TIME_WAIT does not count."""
    with socket.socket() as probe:
        if os.name == "posix":  # on Windows it would mean to share a port that is taken
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def answers(address: str) -> bool:
    """Whether anything listens there. What it is, its Welcome tells."""
    parsed = parse_address(address)
    if parsed.path:
        return os.path.exists(parsed.path)
    try:
        with socket.create_connection((parsed.host, parsed.port), timeout=_PROBE_SECONDS) as probe:
            # Where no process listens, a probe that is given the very port it asks for finds itself.
            return bool(probe.getsockname() != probe.getpeername())
    except OSError:
        return False
