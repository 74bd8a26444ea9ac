"""A well-formed message of every kind, from the golden vectors."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from scaler_conformance.resources import data, vectors_folder
from scaler_conformance.wire import Message, decode


@cache
def rights() -> dict[str, dict[str, dict[str, list[str]]]]:
    """The table of HSK-13: by server, role, and `send` or `receive`."""
    table: dict[str, dict[str, dict[str, list[str]]]] = json.loads(data("rights.json").read_text(encoding="utf-8"))
    return table


def may_send(server: str, role: str) -> tuple[str, ...]:
    return tuple(rights()[server].get(role, {}).get("send", ()))


def may_receive(server: str, role: str) -> tuple[str, ...]:
    return tuple(rights()[server].get(role, {}).get("receive", ()))


@cache
def samples() -> dict[str, Message]:
    """The minimal vector of each kind."""
    found = {}
    for folder in sorted(vectors_folder().glob("*/minimal")):
        if folder.parent.name != "TaskError":
            message = decode(frames_of(folder), is_lenient=True)
            found[message.kind] = message
    return found


def frames_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("frame-*.bin"))]


def forbidden_kinds(server: str, role: str) -> list[str]:
    """Kinds of version 1 that this role may not send to this server."""
    cells = (cell for table in rights().values() for both in table.values() for cell in both.values())
    known = {kind for cell in cells for kind in cell}
    return sorted((known & samples().keys()) - set(may_send(server, role)))
