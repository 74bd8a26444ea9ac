"""An earlier place of these names."""

from scaler.config.types.zmq import ZMQConfig, ZMQType

__all__ = ["ZMQConfig", "ZMQType"]
