"""The name of the account that this process runs as. A program that holds the key itself uses it as its user name."""

from __future__ import annotations

import os

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

from scaler_protocol.keys.tickets import TicketError, check_user


def account_name() -> str:
    """The name that the system has for the account. Variables such as USER are not read: after `su` they can name
    another account. "uid 1000" when the account has no name, as in many containers; "unnamed" when the system has no
    users."""
    name = _system_name()
    try:
        check_user(name)
    except TicketError:
        return _number()
    return name


def _system_name() -> str:
    if pwd is not None:
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return ""
    import getpass  # which imports what only terminals need

    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""


def _number() -> str:
    return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "unnamed"
