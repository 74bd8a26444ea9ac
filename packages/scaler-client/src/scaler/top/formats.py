"""Numbers and names as they are shown. Names are foreign text: nothing in them reaches the terminal unseen. (MON-7)"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

Piece = tuple[str, str]  #: style, text
Line = list[Piece]

NAME_COLUMNS = 24
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def byte_text(count: int) -> str:
    """28.4MiB, 1.2GiB; 0 for nothing."""
    if not count:
        return "0"
    size = float(count)
    for unit in _UNITS:
        size /= 1024
        if size < 999.95 or unit == _UNITS[-1]:
            break
    return f"{size:.1f}{unit}"


def count_text(count: int) -> str:
    return f"{count:,}"


def cpu_text(share: float) -> str:
    """Of one core, so eight busy ones are 800.0%."""
    return f"{100 * share:.1f}%"


def lag_text(seconds: float) -> str:
    """0.7ms, 12ms, 1.5s. Nothing was measured yet: a dash."""
    if seconds <= 0:
        return "-"
    if seconds >= 1:
        return f"{seconds:.1f}s"
    milliseconds = f"{1000 * seconds:.1f}"
    return milliseconds.removesuffix(".0") + "ms"


def duration_text(seconds: float | None) -> str:
    """85us, 1.3ms, 250ms, 2.5s, 12m. None: a dash."""
    if seconds is None:
        return "-"
    if seconds < 0.001:
        return f"{1e6 * seconds:.0f}us"
    if seconds < 1:
        return f"{1e3 * seconds:.1f}ms" if seconds < 0.1 else f"{1e3 * seconds:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 600 else f"{seconds / 60:.0f}m"


def plain(text: str) -> str:
    """Without what moves a terminal's cursor, changes its colours, or turns its direction of writing."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def columns_of(text: str) -> int:
    """How wide it is in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def cut(text: str, columns: int, mark: str = "+") -> str:
    """The beginning, and a mark when that is not all. The mark comes on top."""
    if columns_of(text) <= columns:
        return text
    while columns_of(text) > columns:
        text = text[:columns] if len(text) > columns else text[:-1]
    return text + mark


def name_text(name: str) -> str:
    return cut(plain(name), NAME_COLUMNS)


def padded(text: str, columns: int, *, is_right: bool = True) -> str:
    gap = " " * (columns - columns_of(text))
    return gap + text if is_right else text + gap


def wrapped(words: Sequence[str], width: int) -> list[str]:
    """The words in lines of at most so many columns, longer words alone."""
    lines = [""]
    for word in words:
        if lines[-1] and columns_of(lines[-1]) + 1 + columns_of(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
