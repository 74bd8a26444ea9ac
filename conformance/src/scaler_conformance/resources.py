"""Where the schema, the vectors and the tables of the specification lie: inside the package in a wheel, in the
repository otherwise."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib as toml
else:
    import tomli as toml

__all__ = ["data", "schema_folder", "states_file", "toml", "vectors_folder"]

_PACKAGE = Path(__file__).resolve().parent
_REPOSITORY = _PACKAGE.parents[2]


@cache
def _first(*candidates: Path) -> Path:
    for path in candidates:
        if path.exists():
            return path
    raise FileNotFoundError(f"this installation of scaler-conformance is incomplete: {candidates[-1]} is missing")


def schema_folder() -> Path:
    return _first(_REPOSITORY / "protocol" / "schema" / "v1", _PACKAGE / "data" / "schema")


def vectors_folder() -> Path:
    return _first(_REPOSITORY / "conformance" / "vectors" / "v1", _PACKAGE / "data" / "vectors")


def states_file() -> Path:
    return _first(_REPOSITORY / "protocol" / "spec" / "states.toml", _PACKAGE / "data" / "states.toml")


def data(name: str) -> Path:
    """A file that the suite itself owns."""
    return _first(_PACKAGE / "data" / name)
