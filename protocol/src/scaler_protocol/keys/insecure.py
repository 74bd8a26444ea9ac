"""The warning of a server that runs without keys. (SEC-2)"""

from __future__ import annotations

import logging

from scaler_protocol.addresses import parse_address

_LOCAL = "%s: no keys and no encryption (--insecure): every program of this machine, of any user, can %s through %s"
_REMOTE = "%s: no keys and no encryption (--insecure): every program, of any machine that reaches it, can %s through %s"


def warn_of_insecure(server: str, address: str, risk: str) -> None:
    """Logs that this server asks for no key. `risk`: what any program can do that reaches the address."""
    is_local = parse_address(address, is_bind=True).is_loopback
    logging.warning(_LOCAL if is_local else _REMOTE, server, risk, address)
