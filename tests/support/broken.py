"""`python -m tests.support.broken COMMAND WHERE:CLASS:METHOD arguments`: a command of ours with a mistake in it."""

from __future__ import annotations

import importlib
import runpy
import sys

MISTAKE = "broken on purpose"


def main() -> None:
    command, place, *arguments = sys.argv[1:]
    where, name, method = place.split(":")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(MISTAKE)

    setattr(getattr(importlib.import_module(where), name), method, broken)
    sys.argv = [command, *arguments]
    runpy.run_module(command, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
