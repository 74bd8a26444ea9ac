"""The sessions of a server (skeleton)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, Iterable, Mapping

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, Limits, Software, Timers


@dataclass(frozen=True, slots=True)
class WelcomeFields:
    """The part of a Welcome that only the role knows, made for each Hello."""

    storage_address: str = ""
    monitor_address: str = ""
    is_protected: bool = False


class SessionServer:
    def __init__(
        self,
        *,
        server_id: PeerId,  # fresh random for each life of the server
        role_name: str,  # "scheduler": for people
        allowed_roles: Collection[int],  # who may dial
        allowed_messages: Mapping[int, frozenset[type]] | None = None,  # role -> what it may send; None: anything
        welcome: Callable[[Hello], WelcomeFields] = lambda hello: WelcomeFields(),
        software: Software = Software(),
        incarnation: int = 1,
        timers: Timers = Timers(),
        limits: Limits = Limits(),
        features: Iterable[str] = (),
        reconnect_grace_seconds: float = 2.0,
        backlog_bytes: int = 512 * 1024 * 1024,
    ) -> None: ...
