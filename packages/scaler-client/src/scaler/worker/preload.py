"""What `scaler_cluster --preload` has every processor call."""

from scaler_protocol.process import PreloadSpecError, execute_preload

__all__ = ["PreloadSpecError", "execute_preload"]
