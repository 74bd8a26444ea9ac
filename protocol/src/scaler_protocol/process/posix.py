"""What only runs on Linux and macOS says so before it imports what other systems do not have."""

from __future__ import annotations

import os
import sys

from scaler_protocol.process.failures import EXIT_USAGE

_SENTENCE = "runs on Linux and macOS only: on this machine, use a Client with the address of a scheduler elsewhere"


def require_posix(what: str) -> None:
    """NotImplementedError on any other system."""
    if os.name != "posix":
        raise NotImplementedError(f"{what} {_SENTENCE}")


def use_all_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: a server has a connection or two for each peer. Not for
    processes that run tasks: there is code that can only handle the first thousand descriptors."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, OSError, ValueError):
        pass  # macOS has a lower bound than it says


def posix_command(name: str) -> None:
    """End this process, with one sentence, on any other system. For the first lines of a command's module."""
    if os.name != "posix":
        print(f"{name}: error: {name} {_SENTENCE}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
