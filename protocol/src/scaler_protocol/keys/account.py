"""The name of the account that this process runs as: the user of those who hold the key themselves."""

from __future__ import annotations

import os

from scaler_protocol.keys.tickets import TicketError, check_user


def account_name() -> str:
    """By the system, not by variables, which say who logged in first. "uid 1000" when it has no name, as in many
    containers, and "unnamed" when the system has no users."""
    name = _system_name()
    try:
        check_user(name)
    except TicketError:
        return _number()
    return name


def _system_name() -> str:
    if os.name == "posix":
        try:
            import pwd

            return pwd.getpwuid(os.geteuid()).pw_name
        except (ImportError, KeyError):
            return ""
    import getpass  # which imports what only terminals need

    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""


def _number() -> str:
    return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "unnamed"
