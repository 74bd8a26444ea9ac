"""Writes what the suite knows of the specification: `python -m conformance.tools.clauses`, from the root.

The suite is installed without the repository, so it carries the clauses, the schemas and the state machines with it.
`--check` only compares.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "conformance" / "src" / "scaler_conformance" / "data"
CATALOG = DATA / "clauses.json"


def made() -> str:
    sys.path.insert(0, str(ROOT / "protocol" / "tools"))
    from speclib import clauses

    found, problems = clauses.read_chapters(ROOT / "protocol" / "spec")
    if problems:
        sys.exit("the specification has problems: python protocol/tools/spec.py check")
    entries = []
    for clause in found:
        if clause.is_retired:
            continue
        testability, _, reason = clause.testability.rstrip(")").partition("(")
        entries.append(
            {
                "id": clause.id,
                "text": clause.text,
                "level": clause.level,
                "role": clause.role,
                "testability": testability,
                "reason": reason,
                "fingerprint": clause.fingerprint,
            }
        )
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def rights() -> str:
    """The table of HSK-13: what each role may send to each server, and receive from it."""
    chapter = (ROOT / "protocol" / "spec" / "02-handshake.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (scheduler|storage) \| ([a-z, ]+) \| (.+?) \| (.+?) \|$", chapter, re.MULTILINE)
    table: dict[str, dict[str, dict[str, list[str]]]] = {}
    before: dict[str, list[str]] = {}
    for server, roles, send, receive in rows:
        before = {"send": _kinds(send, before.get("send", [])), "receive": _kinds(receive, before.get("receive", []))}
        for role in roles.split(", "):
            table.setdefault(server, {})[role] = before
    return json.dumps(table, indent=1) + "\n"


def _kinds(cell: str, before: list[str]) -> list[str]:
    same, _, more = cell.partition("the same")
    listed = [
        kind.strip()
        for kind in re.sub(r"^,? and ", "", more if not same else cell).split(",")
        if kind.strip() not in ("", "nothing")
    ]
    return [*before, *listed] if not same else listed


def files() -> dict[Path, str]:
    """What is to be in the data folder, and where."""
    protocol = ROOT / "protocol"
    copies = {DATA / "schema" / path.name: path for path in sorted((protocol / "schema" / "v1").glob("*.capnp"))}
    copies[DATA / "states.toml"] = protocol / "spec" / "states.toml"
    written = {CATALOG: made(), DATA / "rights.json": rights()}
    return written | {to: path.read_text(encoding="utf-8") for to, path in copies.items()}


def stale() -> list[Path]:
    found = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return found + [path for path in (DATA / "schema").glob("*.capnp") if path not in files()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_checked = parser.parse_args().check
    for path in stale():
        print(path.relative_to(ROOT))
        if not is_checked:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files()[path], encoding="utf-8", newline="\n")
    return 1 if is_checked and stale() else 0


if __name__ == "__main__":
    sys.exit(main())
