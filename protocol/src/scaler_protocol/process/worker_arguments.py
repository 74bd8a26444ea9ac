"""Types of the arguments that every kind of worker has, and its managers."""

from __future__ import annotations

import argparse
import importlib.util

from scaler_protocol.addresses import AddressError, parse_address
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.messages import Capability
from scaler_protocol.process.failures import UsageError


def parse_capabilities(text: str) -> tuple[Capability, ...]:
    """`gpu=2,linux`: names, and amounts where they are counted."""
    return tuple(_capability(item.strip()) for item in text.split(",") if item.strip())


def _capability(text: str) -> Capability:
    name, equals, amount = (part.strip() for part in text.partition("="))
    if not name or (equals and not amount.isdecimal() and amount != "-1"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a capability: write name, or name=amount")
    return Capability(name, int(amount) if equals else -1)


def parse_unit(text: str) -> tuple[PeerId, str]:
    manager, _, unit_id = text.partition(":")
    try:
        manager_id = bytes.fromhex(manager)
    except ValueError:
        manager_id = b""
    if len(manager_id) != ID_BYTES or not unit_id:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form MANAGER:UNIT, with 32 hexadecimal digits first")
    return PeerId(manager_id), unit_id


def parse_modules(text: str) -> tuple[str, ...]:
    """Looked for now and imported later, in the processors: a misspelled one is told before there is a worker."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        try:
            is_there = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            is_there = False
        if not is_there:
            raise argparse.ArgumentTypeError(
                f"there is no module {name!r} here: is it installed, or its directory in PYTHONPATH?"
            )
    return names


def checked_address(text: str) -> str:
    try:
        return str(parse_address(text))
    except AddressError as error:
        raise UsageError(str(error)) from None
