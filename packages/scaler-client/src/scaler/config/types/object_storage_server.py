"""The address of an object storage server as an object."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.config.types.zmq import ZMQConfig


@dataclass(frozen=True)
class ObjectStorageConfig:
    host: str
    port: int

    @staticmethod
    def from_string(address: str) -> ObjectStorageConfig:
        """Raises ValueError."""
        parsed = ZMQConfig.from_string(address)
        if parsed.port is None:
            raise ValueError(f"{address} has no port")
        return ObjectStorageConfig(parsed.host, parsed.port)

    def to_string(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.to_string()
