"""Every decision of the adapter, without sockets, threads, clocks or Symphony."""

from scaler_symphony.core.agent import SymphonyCore
from scaler_symphony.core.tables import Settings

__all__ = ["Settings", "SymphonyCore"]
