"""Writes what the suite knows of the specification: `python -m conformance.tools.clauses`, from the root.

The suite is installed without the chapters, so it carries the clauses with it. `--check` only compares.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "conformance" / "src" / "scaler_conformance" / "data" / "clauses.json"


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_checked = parser.parse_args().check
    text = made()
    if is_checked:
        return 0 if CATALOG.read_text(encoding="utf-8") == text else 1
    CATALOG.write_text(text, encoding="utf-8", newline="\n")
    print(f"{text.count(chr(10) + '  {') or text.count('id')} lines in {CATALOG.relative_to(ROOT)}")
    return subprocess.call(["git", "-C", str(ROOT), "diff", "--stat", "--", str(CATALOG)])


if __name__ == "__main__":
    sys.exit(main())
