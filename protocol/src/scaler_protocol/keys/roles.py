"""Roles by name, as `scaler_key` and refusals call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scaler_protocol import codes

ROLES: Mapping[str, int] = {
    "client": codes.ROLE_CLIENT,
    "worker": codes.ROLE_WORKER,
    "scheduler": codes.ROLE_SCHEDULER,
    "monitor": codes.ROLE_MONITOR,
    "manager": codes.ROLE_MANAGER,
}

_NAMES = {number: name for name, number in ROLES.items()}


def role_names(roles: Iterable[int]) -> str:
    """ "client, worker"; a role of a newer protocol is its number."""
    return ", ".join(_NAMES.get(role, f"role {role}") for role in sorted(roles))
