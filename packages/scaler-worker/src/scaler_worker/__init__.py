"""Workers of a Scaler cluster: agents that accept tasks and processors that run them."""

__version__ = "0.1.0"
