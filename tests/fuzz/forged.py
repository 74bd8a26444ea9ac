"""Lines of logs that names of hostile peers have made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

FORGED = "[CRIT]2026-11-22 00:00:00+0000: forged"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


def forged_lines(lines: Iterable[str]) -> Iterator[str]:
    yield from (line for line in lines if line.startswith(FORGED) or _CONTROL.search(line))
