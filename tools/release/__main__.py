"""`python -m tools.release TAG`: may this checkout be published under this tag? It needs nothing but Python."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = "https://example.com/"


def reasons_against(tag: str, root: Path = ROOT) -> Iterator[str]:
    """A sentence for each thing that has to be done first."""
    version = (root / "VERSION").read_text(encoding="utf-8").strip()
    if tag != f"v{version}":
        yield f"the tag is {tag}, and VERSION says {version}: tag v{version}, or change VERSION"
    if f"\n## {version} (" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section {version}: run `python tools/changelog.py --release`"
    if left := len(list((root / "changelog.d").glob("*.md"))):
        yield f"changelog.d has {left} fragments: run `python tools/changelog.py --release`, which takes them up"
    metadata = (root / "tools" / "hatch_metadata.py").read_text(encoding="utf-8")
    if (home := re.findall(r'^HOME = "(.+)"$', metadata, re.M)) and home[0].startswith(PLACEHOLDER):
        yield "HOME in tools/hatch_metadata.py is a placeholder: every link of the dists would lead there"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("tag", help="such as v1.2.3")
    reasons = list(reasons_against(parser.parse_args().tag))
    for reason in reasons:
        print(reason, file=sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
