"""The scheduler of Scaler: takes tasks from clients and spreads them over workers."""

__version__ = "0.1.0"
