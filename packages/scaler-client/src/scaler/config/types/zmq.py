"""An address as an object, for programs that build theirs from parts."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from scaler_protocol.addresses import AddressError, parse_address


class ZMQType(enum.Enum):
    ipc = "ipc"
    tcp = "tcp"


@dataclass(frozen=True)
class ZMQConfig:
    type: ZMQType
    host: str
    port: int | None = None

    @staticmethod
    def from_string(string: str) -> ZMQConfig:
        """Raises ValueError."""
        try:
            parsed = parse_address(string, is_bind=True)
        except AddressError as error:
            raise ValueError(str(error)) from None
        if parsed.path:
            return ZMQConfig(ZMQType.ipc, parsed.path)
        return ZMQConfig(ZMQType.tcp, parsed.host, parsed.port)

    def to_address(self) -> str:
        return f"ipc://{self.host}" if self.type is ZMQType.ipc else f"tcp://{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.to_address()
