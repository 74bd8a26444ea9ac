"""Options whose value is a secret: read from a file or from the environment, and with a warning from the command line,
which every user of the machine can see."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from scaler_protocol.process.failures import UsageError

SECRET_BYTES = 4096
"""No token or password is longer."""


def add_secret(group: argparse._ActionsContainer, name: str, section: str, what: str, default: str = "") -> None:
    """`--auth-token TEXT` and `--auth-token-file FILE`; `given_secret` returns which of them was given."""
    variable = f"SCALER_{section}_{name[2:]}".upper().replace("-", "_")
    group.add_argument(
        name, action=_Visible, metavar="TEXT", default=default,
        help=f"{what}. All users of this machine can see a command line: better use the next option, or {variable} in "
        "the environment",
    )  # fmt: skip
    group.add_argument(f"{name}-file", metavar="FILE", help=f"a file whose content is the value of {name}")


def given_secret(options: argparse.Namespace, name: str) -> str:
    """The value of the option that `add_secret` has added. Raises UsageError for a file that has none."""
    path = getattr(options, f"{name}_file")
    if not path:
        return str(getattr(options, name) or "")
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(SECRET_BYTES + 1)
        text = content.decode().strip()
    except OSError as error:
        raise UsageError(f"{_option(name)}-file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{_option(name)}-file {path} is not a text") from None
    if not text or len(content) > SECRET_BYTES or not text.isprintable():
        raise UsageError(f"{_option(name)}-file {path} must hold one line of 1 to {SECRET_BYTES} printable bytes")
    return text


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _Visible(argparse.Action):
    """argparse calls this for the command line only: files and the environment become defaults."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values)
        print(
            f"{parser.prog}: warning: the value of {option} stands on the command line, where all users of this "
            f"machine can see it: use {self.option_strings[0]}-file or the environment",
            file=sys.stderr,
        )
