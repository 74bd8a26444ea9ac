"""The one session of a dialer (skeleton)."""

from __future__ import annotations

from scaler_protocol.messages import Hello


class SessionDialer:
    def __init__(
        self,
        *,
        hello: Hello,  # `incarnation` is where counting starts: each dial without resume uses the next one
        server_name: str = "server",  # "scheduler": for people
        give_up_seconds: float | None = None,  # Rejected when nobody has answered for so long; None: never
        backlog_bytes: int = 512 * 1024 * 1024,
    ) -> None: ...
