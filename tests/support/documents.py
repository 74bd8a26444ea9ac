"""Programs and what they print, out of Markdown: a heading, a block of Python, a block of text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ANYTHING = "…"

_SECTION = re.compile(
    r"^## (?P<name>\w+).*?^```python\n(?P<text>.*?)^```\n+^```text\n(?P<output>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Program:
    name: str
    text: str
    output: str

    def at(self, address: str) -> str:
        """The program with this cluster in place of the printed one."""
        return re.sub(r"tcp://127\.0\.0\.1:\d+", address, self.text)


def programs(path: Path) -> dict[str, Program]:
    found = [Program(**match.groupdict()) for match in _SECTION.finditer(path.read_text(encoding="utf-8"))]
    return {program.name: program for program in found}


def matches(printed: str, expected: str) -> bool:
    """Is it what the document shows, where … stands for anything?"""
    pattern = re.escape(expected.strip()).replace(ANYTHING, ".*")
    return re.fullmatch(pattern, printed.strip(), re.S) is not None
