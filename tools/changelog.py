"""Puts the fragments of `changelog.d/` together: prints the next release's section, or with --release writes it.

A fragment is named AREA-TOPIC.md and holds one to three lines in the user's words. Sections come in the order of AREAS.
"""

import argparse
import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRAGMENTS = ROOT / "changelog.d"
MARK = "<!-- releases, newest first -->\n"
NO_RELEASE = "\nNo release yet.\n"

AREAS = {
    "client": "Client",
    "cluster": "Local cluster",
    "commands": "Commands",
    "scheduler": "Scheduler",
    "worker": "Worker",
    "storage": "Object storage",
    "protocol": "Protocol",
    "conformance": "Conformance suite",
    "build": "Packaging and tools",
    "docs": "Documentation",
}


class BadFragment(Exception):
    """A file name or text that does not follow the convention."""


def area_of(path: Path) -> str:
    area, dash, _ = path.stem.partition("-")
    if not dash or area not in AREAS:
        raise BadFragment(f"{path.name}: name it AREA-TOPIC.md, where AREA is one of {', '.join(AREAS)}")
    return area


def text_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8").strip()
    lines = text.splitlines()
    if not 1 <= len(lines) <= 3 or lines[0].startswith("#"):
        raise BadFragment(f"{path.name}: one to three lines and no heading, please; it has {len(lines)}")
    return text


def section(version: str, date: str, paths: list[Path]) -> str:
    by_area: dict[str, list[str]] = {}
    for path in paths:
        by_area.setdefault(area_of(path), []).append("* " + text_of(path).replace("\n", "\n  "))
    parts = [f"## {version} ({date})"]
    parts += [f"### {AREAS[area]}\n\n" + "\n".join(by_area[area]) for area in AREAS if area in by_area]
    return "\n\n".join(parts) + "\n"


def released(text: str, new_section: str) -> str:
    head, mark, tail = text.partition(MARK)
    assert mark, f"CHANGELOG.md has lost its mark: {MARK.strip()}"
    return f"{head}{mark}\n{new_section}{tail.replace(NO_RELEASE, '')}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="store_true", help="write it into CHANGELOG.md and remove the fragments")
    options = parser.parse_args()
    paths = sorted(FRAGMENTS.glob("*.md"))
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    try:
        new_section = section(version, datetime.date.today().isoformat(), paths)
    except BadFragment as error:
        print(error, file=sys.stderr)
        return 1
    if not options.release:
        print(new_section, end="")
        return 0
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(released(changelog.read_text(encoding="utf-8"), new_section), encoding="utf-8")
    for path in paths:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
