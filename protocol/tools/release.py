"""Frozen copies of every released schema, and the gate that every later schema has to pass.

    python protocol/tools/release.py freeze 1.1    keep schema/v1 as it is now, as release 1.1
    python protocol/tools/release.py check         no frozen file has changed, and schema/v1 may follow each release

A release is frozen once. One whose name ends in `-draft` has promised nothing yet: it may be frozen again, which is how
an incompatible change before the first release is made on purpose. Each finding is one line, and then the exit status
is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HASHES = "HASHES"
GATE = Path(__file__).with_name("schema_gate.py")
GATE_SECONDS = 60


class ReleaseError(Exception):
    """What was asked for would break a promise."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Where the schema and its releases are."""

    protocol: Path

    @property
    def schema(self) -> Path:
        return self.protocol / "schema" / "v1"

    @property
    def released(self) -> Path:
        return self.protocol / "released"

    def releases(self) -> list[Path]:
        return sorted(path.parent for path in self.released.glob(f"*/{HASHES}"))


def freeze(tree: Tree, name: str) -> None:
    target = tree.released / name
    if target.exists() and not is_draft(target):
        raise ReleaseError(f"{name} is released: it stays as it is. Freeze the change under a new name.")
    if is_draft(target):
        findings = [finding for release in tree.releases() if release != target for finding in judge(release, tree)]
        if findings:
            raise ReleaseError("\n".join(findings))
        shutil.rmtree(target, ignore_errors=True)
    elif findings := check(tree):
        raise ReleaseError("\n".join(findings))
    target.mkdir(parents=True)
    for path in schema_files(tree.schema):
        shutil.copyfile(path, target / path.name)
    (target / HASHES).write_text(hashes(target), encoding="utf-8", newline="\n")


def is_draft(release: Path) -> bool:
    return release.name.endswith("-draft")


def check(tree: Tree) -> list[str]:
    """What is wrong, a line each; empty when all is well."""
    releases = tree.releases()
    if not releases:
        return [f"there is no release in {tree.released.name}/; freeze the first"]
    return [finding for release in releases for finding in (*changed_files(release), *judge(release, tree))]


def changed_files(release: Path) -> list[str]:
    if hashes(release) == (release / HASHES).read_text(encoding="utf-8"):
        return []
    return [f"{release.name}: its files and {HASHES} disagree; a frozen release is never edited"]


def judge(release: Path, tree: Tree) -> list[str]:
    """Whether the schema may follow this release. In a process of its own, because a broken schema aborts it."""
    command = [sys.executable, str(GATE), str(release), str(tree.schema)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=GATE_SECONDS, check=False)
    findings = ended.stdout.splitlines()
    if ended.returncode not in (0, 1) or (ended.returncode == 1 and not findings):
        told = [line for line in ended.stderr.splitlines() if "error:" in line or "failed:" in line]
        findings = [f"the schema cannot be loaded: {told[0].strip() if told else ended.stderr.strip()[-200:]}"]
    remedy = f" (still a draft: `release.py freeze {release.name}` accepts it)" if is_draft(release) else ""
    return [f"{release.name}: {finding}{remedy}" for finding in findings]


def schema_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.capnp"))


def hashes(directory: Path) -> str:
    """One line for each file, as `sha256sum` writes and checks them."""
    digests = ((hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in schema_files(directory))
    return "".join(f"{digest}  {name}\n" for digest, name in digests)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("freeze", help="keep the schema as a release").add_argument("name", help="such as 1.1")
    commands.add_parser("check", help="judge the schema by every release")
    arguments = parser.parse_args()
    tree = Tree(Path(__file__).resolve().parents[1])
    try:
        if arguments.command == "freeze":
            freeze(tree, arguments.name)
        findings = check(tree)
    except ReleaseError as error:
        findings = str(error).splitlines()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
