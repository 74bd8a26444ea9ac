"""Every decision of a worker, without sockets, processes or clocks."""

from scaler_worker.core.agent import AgentCore
from scaler_worker.core.tables import Settings

__all__ = ["AgentCore", "Settings"]
