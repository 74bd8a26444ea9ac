"""The schemas, as pycapnp reads them. The only module that imports it."""

from __future__ import annotations

from functools import cache
from typing import Any

import capnp

from scaler_conformance.resources import schema_folder

capnp.remove_import_hook()


@cache
def load(name: str) -> Any:
    return _parser().load(str(schema_folder() / f"{name}.capnp"))


@cache
def _parser() -> Any:
    return capnp.SchemaParser()
