"""Source lines for the traceback of a task whose worker does not have the program's files, as from a notebook."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator

_FRAME = re.compile(r'( *)File "([^"]+)", line (\d{1,9})(?:, in .*)?')
MOST_LINES = 1_000


def with_source_lines(text: str) -> str:
    """Each line that names a place in a module or cell of this program, and shows no source, gets it."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        return text
    return "\n".join(_with_source(lines, _own_files()))


def _with_source(lines: list[str], own_files: set[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        yield line
        frame = _FRAME.fullmatch(line)
        # The text is from afar: no file is opened because a worker names it.
        if frame and not following.startswith(frame[1] + "  ") and frame[2] in own_files:
            source = linecache.getline(frame[2], int(frame[3])).strip()
            if source:
                yield f"{frame[1]}  {source}"


def _own_files() -> set[str]:
    named = [vars(one).get("__file__") for one in list(sys.modules.values()) if hasattr(one, "__dict__")]
    return {file for file in named if isinstance(file, str)} | set(linecache.cache)
