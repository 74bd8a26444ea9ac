"""Which code this interpreter makes and reads, and how people call it. (CLI-15, WRK-26)

Functions and classes that do not travel by name carry bytecode, which each minor version of Python has its own of. An
interpreter that runs another version's bytecode crashes, or does something else than the program says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

CODE_TAG = sys.implementation.cache_tag or f"{sys.implementation.name}-{sys.version_info[0]}{sys.version_info[1]}"

_CPYTHON = re.compile(r"cpython-(\d)(\d+)")


def called(tag: str) -> str:
    """As people say it: "Python 3.11". The tag itself where it is not CPython's."""
    found = _CPYTHON.fullmatch(tag)
    return f"Python {found[1]}.{found[2]}" if found else tag


def all_called(tags: Iterable[str]) -> str:
    """Several, without saying "Python" again and again: "Python 3.9, 3.12"."""
    names = [called(tag) for tag in sorted(tags, key=_in_order)]
    return ", ".join(name if index == 0 else name.removeprefix("Python ") for index, name in enumerate(names))


def _in_order(tag: str) -> tuple[int, int, str]:
    found = _CPYTHON.fullmatch(tag)
    return (int(found[1]), int(found[2]), "") if found else (sys.maxsize, 0, tag)


def unreadable(tag: str, tags: Iterable[str], where: str) -> str:
    """The sentence for those who wonder why their task was refused, or their value cannot be read."""
    return (
        f"it carries code of {called(tag)}, and {where} runs {all_called(tags)}: use the same minor version on both "
        "sides, or functions and classes of modules that are installed on both"
    )
