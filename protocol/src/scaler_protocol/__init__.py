"""The protocol of Scaler: messages, codec, sessions and transport (see `protocol/spec/`)."""

__version__ = "0.1.0"
