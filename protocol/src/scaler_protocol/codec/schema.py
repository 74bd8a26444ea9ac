"""Finds and loads the schema of protocol version 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

SCHEMA_FILES = ("constants", "session", "tasks", "workers", "objects", "monitor", "managers", "envelope")


def schema_directory() -> Path:
    """Where the `.capnp` files are: inside the package in a wheel, at `protocol/schema/v1` in a checkout."""
    package = Path(__file__).resolve().parents[1]
    candidates = (package / "schema" / "v1", package.parents[1] / "schema" / "v1")
    for directory in candidates:
        if (directory / "envelope.capnp").is_file():
            return directory
    places = " nor in ".join(str(directory) for directory in candidates)
    raise ImportError(f"scaler-protocol is not complete: its schema is neither in {places}; install it again")


@lru_cache(maxsize=1)
def load() -> dict[str, Any]:
    """Every file of the schema by its name, parsed once per process (about 1 ms a file)."""
    import capnp  # brings asyncio and TLS along: a program that starts a cluster has started it by now

    # A parser of our own: the same file ids in another program's parser do not disturb it, and a second version of the
    # schema may live beside it.
    with _in_a_directory():
        parser = capnp.SchemaParser()
        directory = schema_directory()
        return {name: parser.load(str(directory / f"{name}.capnp")) for name in SCHEMA_FILES}


@contextmanager
def _in_a_directory() -> Iterator[None]:
    """Has a working directory that exists while the schema is parsed: without one, Cap'n Proto ends the process.

    If the one of the program was deleted, it is the root meanwhile. No other thread misses the deleted one, because
    no relative path can be found from there.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        gone = os.open(".", os.O_RDONLY)
    else:
        yield
        return
    try:
        os.chdir("/")
        try:
            yield
        finally:
            os.fchdir(gone)
    finally:
        os.close(gone)
