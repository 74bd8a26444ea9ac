"""Pools of workers by user: the capability `user:NAME` names the user of the ticket with which a worker has come.

The scheduler sets it from the ticket and from nothing else, so that a task that asks for it runs on workers of that
user, whatever other workers offer. In a cluster without keys no user is known, and the name is one like any other.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.keys import Identity
from scaler_protocol.messages import Capability, Hello

PREFIX = "user:"


def of_user(hello: Hello, identity: Identity | None) -> Hello:
    """What a worker or manager offers, with the user of its ticket. Others' names are taken out."""
    if identity is None:
        return hello
    return replace(
        hello,
        worker=replace(hello.worker, capabilities=_of_user(hello.worker.capabilities, identity.user)),
        manager=replace(hello.manager, capabilities=_of_user(hello.manager.capabilities, identity.user)),
    )


def _of_user(capabilities: tuple[Capability, ...], user: str) -> tuple[Capability, ...]:
    return (*(one for one in capabilities if not one.name.startswith(PREFIX)), Capability(f"{PREFIX}{user}", -1))
