"""Completion of options in a shell, where argcomplete is installed: `eval "$(register-python-argcomplete scaler)"`."""

from __future__ import annotations

import argparse
import importlib.util
import os


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell and ends the process, when it is the shell that runs the command to be told what may follow."""
    if "_ARGCOMPLETE" in os.environ and importlib.util.find_spec("argcomplete") is not None:
        import argcomplete

        argcomplete.autocomplete(parser)
