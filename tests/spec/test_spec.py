"""The specification keeps its own rules, and the tool that says so can tell when it does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "protocol" / "tools" / "spec.py"
PARTS = ("protocol/spec", "protocol/schema/v1", "protocol/src/scaler_protocol/codes.py")

#: Ids that must not exist are written in two halves, or with a number in braces: the tool reads this file too.
MISSING = "SCH" + "-999"


def run(*arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the tool reads, to be broken."""
    for part in PARTS:
        target = tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target)
        else:
            shutil.copy(ROOT / part, target)
    return tmp_path


def replace(path: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(tree: Path) -> None:
        text = (tree / path).read_text(encoding="utf-8")
        assert old in text, f"the sample no longer fits: {old!r} is not in {path}"
        (tree / path).write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def append(path: str, text: str) -> Callable[[Path], None]:
    def edit(tree: Path) -> None:
        file = tree / path
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before + text, encoding="utf-8")

    return edit


def test_the_specification_keeps_its_rules() -> None:
    result = run("check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_unbroken_copy_passes(tree: Path) -> None:
    """Otherwise the broken samples below would fail for a reason of their own."""
    result = run("check", root=tree)
    assert result.returncode == 0, result.stdout + result.stderr


SPEC = "protocol/spec/"
ATTRIBUTES = "`peer · 1.0 · wire`\n"
WIRE = "packages/somewhere/src/module.py"
SENDER = "def refuse(code: int, text: str, clause: str) -> None: ...\n\n\n"
BROKEN = {
    "a keyword outside a clause": (
        append(SPEC + "04-liveness.md", "\nA peer SHOULD be polite.\n"),
        "SHOULD stands outside a clause",
    ),
    "a keyword in a table": (
        append(SPEC + "15-limits.md", "\n| x | MUST |\n"),
        "MUST stands outside a clause",
    ),
    "a number twice": (
        append(SPEC + "04-liveness.md", f"\n**LIV-1** A peer MUST be.\n{ATTRIBUTES}"),
        "LIV-1 is used already",
    ),
    "a gap in the numbers": (
        append(SPEC + "04-liveness.md", f"\n**LIV-{90}** A peer MUST be.\n{ATTRIBUTES}"),
        f"LIV-{80} is missing",
    ),
    "a number with a leading zero": (
        replace(SPEC + "04-liveness.md", "**LIV-2** ", f"**LIV-{0}2** "),
        "without leading zeros",
    ),
    "a clause in a foreign chapter": (
        append(SPEC + "04-liveness.md", f"\n**MON-{8}** A peer MUST be.\n{ATTRIBUTES}"),
        "stand in another chapter",
    ),
    "a clause without attributes": (
        replace(SPEC + "04-liveness.md", "`dialer · 1.0 · timing`\n", ""),
        "the last line must be its attributes",
    ),
    "an unknown role": (
        replace(SPEC + "04-liveness.md", "`dialer · 1.0 · timing`", "`butler · 1.0 · timing`"),
        "unknown role 'butler'",
    ),
    "a version that is none": (
        replace(SPEC + "04-liveness.md", "`dialer · 1.0 · timing`", "`dialer · first · timing`"),
        "must look like 1.0",
    ),
    "a review without a reason": (
        replace(SPEC + "04-liveness.md", "`dialer · 1.0 · timing`", "`dialer · 1.0 · review()`"),
        "testability must be",
    ),
    "two keywords in a clause": (
        replace(SPEC + "04-liveness.md", "**LIV-4** A peer MUST answer", "**LIV-4** A peer MUST and SHOULD answer"),
        "one keyword",
    ),
    "a clause without a keyword": (
        replace(SPEC + "04-liveness.md", "**LIV-4** A peer MUST answer", "**LIV-4** A peer answers"),
        "one keyword",
    ),
    "an edited sentence": (
        replace(SPEC + "04-liveness.md", "with one Pong of the same", "with a Pong of the same"),
        "LIV-4 reads differently than when it was accepted",
    ),
    "a new clause": (
        append(SPEC + "04-liveness.md", f"\n**LIV-{20}** A peer MUST be.\n{ATTRIBUTES}"),
        f"LIV-{20} is new",
    ),
    "a clause that vanished": (
        append(SPEC + "clauses.lock", f"LIV-{20} 0123456789abcdef\n"),
        f"LIV-{20} has vanished",
    ),
    "a retired number used again": (
        append(SPEC + "clauses.lock", "LIV-1 retired\n"),
        "a number is never used again",
    ),
    "a citation in code of a clause that does not exist": (
        append("packages/somewhere/module.py", f"# as it was written ({MISSING})\n"),
        f"{MISSING} is cited and does not exist",
    ),
    "a clause on the wire that does not exist": (
        append(WIRE, f'{SENDER}refuse(1, "too long", "{MISSING}")\n'),
        f"'{MISSING}' is sent as the clause of an Error and is none",
    ),
    "a clause on the wire that is written wrongly": (
        append(WIRE, f'{SENDER}refuse(1, "too long", "BAT2")\n'),
        "'BAT2' is sent as the clause of an Error and is none",
    ),
    "a clause on the wire given by its name": (
        append(WIRE, f'{SENDER}refuse(1, "too long", clause="SES")\n'),
        "'SES' is sent as the clause of an Error and is none",
    ),
    "a clause on the wire in a record": (
        append(WIRE, "class Error:\n    code: int\n    clause: str = ''\n\n\nError(1, 'FRM')\n"),
        "'FRM' is sent as the clause of an Error and is none",
    ),
    "a citation in a schema comment": (
        append("protocol/schema/v1/tasks.capnp", f"# {MISSING}\n"),
        f"{MISSING} is cited and does not exist",
    ),
    "a citation in the text": (
        append(SPEC + "README.md", f"\nSee {MISSING}.\n"),
        f"{MISSING} is cited and does not exist",
    ),
    "a code without a row": (
        append("protocol/src/scaler_protocol/codes.py", "BRAND_NEW = 999\n"),
        "BRAND_NEW (999) is in codes.py and has no row",
    ),
    "a row without a code": (
        append(SPEC + "11-errors.md", "\n| 998 | NOBODY_SENDS_THIS | … |\n"),
        "NOBODY_SENDS_THIS (998) has a row in the table and is not in codes.py",
    ),
    "a row with another number": (
        replace(SPEC + "11-errors.md", "| 300 | BAD_BATCH |", "| 310 | BAD_BATCH |"),
        "BAD_BATCH is 310 here and 300 in codes.py",
    ),
    "a message no chapter describes": (
        replace(SPEC + "04-liveness.md", "### Message `pong`: either\n", ""),
        "pong is described in no chapter",
    ),
    "a message described twice": (
        append(SPEC + "04-liveness.md", "\n### Message `hello`: dialer -> server\n"),
        "hello is described already",
    ),
    "a message with another receiver": (
        replace(SPEC + "05-client.md", "`submit`: client -> scheduler", "`submit`: client -> worker"),
        "submit: the schema says 'client -> scheduler', this heading 'client -> worker'",
    ),
    "a message the envelope lacks": (
        append(SPEC + "04-liveness.md", "\n### Message `telepathy`: either\n"),
        "telepathy is no message of the envelope",
    ),
    "a transition to nowhere": (
        replace(SPEC + "states.toml", 'to = "dialing"', 'to = "heaven"'),
        "heaven is in a transition and not defined",
    ),
    "a state nothing leads to": (
        replace(SPEC + "states.toml", "[machine.states]\n", '[machine.states]\nlimbo = "Lost."\n'),
        "nothing leads to limbo",
    ),
    "a transition that cites nothing": (
        replace(SPEC + "states.toml", 'clause = "HSK-1"', f'clause = "{MISSING}"'),
        f"cites {MISSING}, which does not exist",
    ),
    "tables older than the data": (
        replace(SPEC + "states.toml", "There is no session and nothing has been said.", "Nothing has been said."),
        "its state tables differ from states.toml",
    ),
    "a machine that is not shown": (
        replace(SPEC + "12-storage.md", "<!-- states:object -->", "<!-- states:objects -->"),
        "object is shown 0 times",
    ),
}


@pytest.mark.parametrize("sample", BROKEN, ids=lambda name: name.replace(" ", "-"))
def test_a_broken_sample_is_found(sample: str, tree: Path) -> None:
    edit, complaint = BROKEN[sample]
    edit(tree)
    result = run("check", root=tree)
    assert result.returncode == 1 and complaint in result.stdout, result.stdout + result.stderr


def test_clauses_on_the_wire_are_told_from_other_texts(tree: Path) -> None:
    """Two methods of one name: what is the text of the one is where the clause of the other would be."""
    other = "class Other:\n    def refuse(self, peer: bytes, code: int, text: str, clause: str) -> None: ...\n\n\n"
    calls = 'Other().refuse(b"", 1, "too long", "FRM-4")\nrefuse(1, "too long", "BAT-2")\nrefuse(1, "no clause", "")\n'
    append(WIRE, SENDER + other + calls)(tree)
    result = run("check", root=tree)
    assert result.returncode == 0, result.stdout


def test_keywords_in_code_and_fences_are_not_read(tree: Path) -> None:
    append(SPEC + "04-liveness.md", "\nThe word `MUST`.\n\n```\nthis MUST not count\n```\n")(tree)
    assert run("check", root=tree).returncode == 0


def test_accept_records_a_changed_wording(tree: Path) -> None:
    replace(SPEC + "04-liveness.md", "with one Pong of the same", "with a Pong of the same")(tree)
    assert run("check", root=tree).returncode == 1
    assert run("accept", "LIV-4", root=tree).returncode == 0
    assert run("check", root=tree).returncode == 0


def test_accept_refuses_what_does_not_exist(tree: Path) -> None:
    before = (tree / SPEC / "clauses.lock").read_text(encoding="utf-8")
    assert run("accept", MISSING, root=tree).returncode == 1
    assert (tree / SPEC / "clauses.lock").read_text(encoding="utf-8") == before


def test_a_clause_may_be_retired_and_its_number_stays_taken(tree: Path) -> None:
    chapter = tree / SPEC / "04-liveness.md"
    text = chapter.read_text(encoding="utf-8")
    begin = text.index("**LIV-10** ")
    end = text.index("\n\n", begin)
    chapter.write_text(text[:begin] + "**LIV-10** (retired in 1.1: nobody did it)" + text[end:], encoding="utf-8")
    assert run("accept", "LIV-10", root=tree).returncode == 0
    assert run("check", root=tree).returncode == 0, run("check", root=tree).stdout
    chapter.write_text(text, encoding="utf-8")
    assert "never used again" in run("check", root=tree).stdout
    assert run("accept", "LIV-10", root=tree).returncode == 1


def test_tables_write_renews_the_chapters(tree: Path) -> None:
    replace(SPEC + "states.toml", "There is no session and nothing has been said.", "Nothing has been said.")(tree)
    assert run("tables", "--check", root=tree).returncode == 1
    assert run("tables", "--write", root=tree).returncode == 0
    assert run("tables", "--check", root=tree).returncode == 0
    assert "Nothing has been said." in (tree / SPEC / "03-session.md").read_text(encoding="utf-8")


def test_list_gives_every_clause_with_its_attributes() -> None:
    clauses = json.loads(run("list").stdout)
    by_id = {clause["id"]: clause for clause in clauses}
    assert len(by_id) == len(clauses) > 200
    fence = by_id["LIV-4"]
    assert (fence["level"], fence["role"], fence["since"], fence["testability"]) == ("MUST", "peer", "1.0", "wire")
    assert "`" not in fence["testability"] and fence["text"].startswith("A peer MUST answer each Ping")
