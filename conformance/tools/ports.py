"""Writes what each port supports into the ports' README: `python -m conformance.tools.ports`, from the root.

A port claims a feature in its manifest, and the suite holds it to that claim, so the table cannot say more than is
there. What a feature is for, and between which roles, is read from chapter 02. `--check` only compares.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from scaler_conformance.manifest import Manifest, read

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "conformance" / "ports" / "README.md"
BEGIN, END = "<!-- features: python -m conformance.tools.ports -->\n", "<!-- /features -->\n"
PORTS = {
    "C++": "conformance/ports/cpp/scaler-conformance.toml",
    "TypeScript": "conformance/ports/typescript/scaler-conformance.toml",
    "Python": "conformance/adapters/scaler.toml",
}
ROLES = ("client", "worker")


def features() -> dict[str, tuple[str, str]]:
    """By name: between which peers, and what it brings, without the numbers of clauses."""
    chapter = (ROOT / "protocol" / "spec" / "02-handshake.md").read_text(encoding="utf-8")
    table = chapter.partition("| feature | between | brings | needs |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \| .*\|$", table, re.MULTILINE)
    return {name: (between, re.sub(r" \(\*\*.*\*\*\)", "", brings)) for name, between, brings in rows}


def made() -> str:
    manifests = {name: read(ROOT / path) for name, path in PORTS.items()}
    columns = [(name, role, found) for name, found in manifests.items() for role in ROLES if role in found.roles]
    lines = [
        "| | " + " | ".join(f"{name} {role}" for name, role, _ in columns) + " | brings |",
        "|---|" + "---|" * len(columns) + "---|",
        "| keys | "
        + " | ".join("yes" if found.has_keys else "no" for *_, found in columns)
        + " | clusters with keys |",
    ]
    for feature, (between, brings) in features().items():
        if any(role in between for role in ROLES):
            cells = " | ".join(_cell(feature, between, role, found) for _, role, found in columns)
            lines.append(f"| `{feature}` | {cells} | {brings} |")
    return "\n".join(lines) + "\n"


def _cell(feature: str, between: str, role: str, port: Manifest) -> str:
    if role not in between:
        return ""
    return "yes" if feature in port.features else "no"


def renewed(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + made() + END + rest.partition(END)[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true")
    is_checked = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    if text == renewed(text):
        return 0
    if is_checked:
        print(f"{README} is behind the manifests: python -m conformance.tools.ports", file=sys.stderr)
        return 1
    README.write_text(renewed(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
