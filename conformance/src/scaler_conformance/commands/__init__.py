"""The command and its sub-commands, one module each."""

from .main import main

__all__ = ["main"]
