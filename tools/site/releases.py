"""The change log: what the next release will say, from its fragments, then the releases there have been."""

from __future__ import annotations

from pathlib import Path

from tools.changelog import MARK, NO_RELEASE, section


def page(root: Path) -> str:
    fragments = sorted((root / "changelog.d").glob("*.md"))
    version = (root / "VERSION").read_text(encoding="utf-8").strip()
    _, _, released = (root / "CHANGELOG.md").read_text(encoding="utf-8").partition(MARK)
    parts = ["# Change log\n"]
    if fragments:
        parts.append(section(version, "not released yet", fragments))
    parts.append(released.replace(NO_RELEASE, ""))
    return "\n".join(parts)
