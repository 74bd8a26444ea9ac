"""Addresses (skeleton)."""

from __future__ import annotations


class AddressError(ValueError):
    """An address that cannot be used; its text is one sentence that says what to do."""


def default_storage_address(scheduler: str) -> str: ...


def default_monitor_address(scheduler: str) -> str: ...
