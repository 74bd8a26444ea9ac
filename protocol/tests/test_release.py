"""The gate judges edits of the schema: each is known to be good or bad, and has to be judged so. (EVO-1)"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROTOCOL = Path(__file__).resolve().parents[1]


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROTOCOL / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


release = load_tool("release")


@pytest.fixture
def tree(tmp_path: Path) -> Any:
    """A copy of the schema, released as 1.0."""
    shutil.copytree(PROTOCOL / "schema", tmp_path / "schema")
    copy = release.Tree(tmp_path)
    copy.released.mkdir()
    target = copy.released / "1.0"
    shutil.copytree(copy.schema, target)
    (target / release.HASHES).write_text(release.hashes(target), encoding="utf-8")
    return copy


def edit(tree: Any, file: str, old: str, new: str) -> None:
    path = tree.schema / f"{file}.capnp"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}.capnp"
    path.write_text(text.replace(old, new), encoding="utf-8")


_ENVELOPE = (PROTOCOL / "schema" / "v1" / "envelope.capnp").read_text(encoding="utf-8")
NEXT_MEMBER = 1 + max(int(number) for number in re.findall(r"@(\d+) :", _ENVELOPE))

GOOD = {
    "a field at the end": (
        "session",
        "nonce @0 :UInt64;  # echoed in the Pong",
        "nonce @0 :UInt64;\n  at @1 :Float64;",
    ),
    "a default written out": ("workers", "limit @0 :UInt32;", "limit @0 :UInt32 = 0;"),
    "a constant": ("constants", "const ok :UInt16 = 0;", "const ok :UInt16 = 0;\nconst queueLost :UInt16 = 510;"),
    "a comment": ("workers", "limit @0 :UInt32;", "limit @0 :UInt32;  # absolute"),
    "a struct": ("workers", "struct Credit @", "struct Loan @0xd1a2b3c4d5e6f701 {\n}\n\nstruct Credit @"),
    "a field in between, by place only": ("workers", "limit @0 :UInt32;", "bonus @2 :UInt32;\n  limit @0 :UInt32;"),
    "a member of the union": (
        "envelope",
        "clusterStatus @33 :Monitor.ClusterStatus;",
        f"clusterStatus @33 :Monitor.ClusterStatus;\n    farewell @{NEXT_MEMBER} :Session.Bye;",
    ),
}

BAD = {
    "another type": ("tasks", "depth @6 :UInt16 = 0;", "depth @6 :UInt32 = 0;"),
    "another sign": ("tasks", "priority @5 :Int32 = 0;", "priority @5 :UInt32 = 0;"),
    "a float for a number": ("objects", "offset @2 :UInt64;      #", "offset @2 :Float64;      #"),
    "data for text": ("session", "text @1 :Text;\n}\n\nstruct Ping", "text @1 :Data;\n}\n\nstruct Ping"),
    "another default": ("session", "amount @1 :Int64 = -1;", "amount @1 :Int64 = 1;"),
    "a default dropped": ("session", "amount @1 :Int64 = -1;", "amount @1 :Int64;"),
    "another item of a list": ("tasks", "keywords @2 :List(Text);", "keywords @2 :List(Data);"),
    "another id of a struct": ("session", "struct Ping @0xb41e3c44f4a311b4", "struct Ping @0xb41e3c44f4a311b5"),
    "no id of a struct": ("session", "struct Ping @0xb41e3c44f4a311b4", "struct Ping"),
    "no id of a new struct": ("workers", "struct Credit @", "struct Loan {\n}\n\nstruct Credit @"),
    "another id of a file": ("monitor", "@0xc2b5aef2d0a64b91;", "@0xc2b5aef2d0a64b92;"),
    "a field renamed": ("workers", "limit @0 :UInt32;", "ceiling @0 :UInt32;"),
    "the last field removed": ("workers", "nestedReserve @1 :UInt32;", ""),
    "two numbers exchanged": (
        "session",
        "heartbeatSeconds @0 :Float64 = 2;  # silence after which the dialer sends a Ping\n  leaseSeconds @1",
        "heartbeatSeconds @1 :Float64 = 2;\n  leaseSeconds @0",
    ),
    "a member renamed": ("envelope", "pong @8 :Session.Pong;", "echo @8 :Session.Pong;"),
    "a member of another type": ("envelope", "pong @8 :Session.Pong;", "pong @8 :Session.Ping;"),
    "a struct renamed": ("objects", "struct Get @", "struct Fetch @"),
    "a constant removed": ("constants", "const tooDeep :UInt16 = 508;\n", ""),
    "a constant renamed": ("constants", "const tooDeep :", "const tooHigh :"),
    "a constant of another value": ("constants", "const tooDeep :UInt16 = 508;", "const tooDeep :UInt16 = 608;"),
    "a gap in the numbers": ("workers", "limit @0 :UInt32;", ""),
    "a type that is not there": ("workers", "limit @0 :UInt32;", "limit @0 :Limit;"),
    "no schema at all": ("workers", "struct Credit @", "struct Credit Credit @"),
}


def test_the_schema_may_follow_every_release() -> None:
    assert release.check(release.Tree(PROTOCOL)) == []


@pytest.mark.parametrize("what", GOOD)
def test_a_good_edit_passes(tree: Any, what: str) -> None:
    edit(tree, *GOOD[what])
    assert release.check(tree) == []


@pytest.mark.parametrize("what", BAD)
def test_a_bad_edit_is_told(tree: Any, what: str) -> None:
    edit(tree, *BAD[what])
    if what == "a struct renamed":  # where it is used too, or the schema would not load for that reason alone
        edit(tree, "envelope", "Objects.Get;", "Objects.Fetch;")
    findings = release.check(tree)
    assert findings
    assert all(finding.startswith("1.0: ") and "Traceback" not in finding for finding in findings)


def test_a_schema_that_does_not_load_is_told_by_its_place(tree: Any) -> None:
    edit(tree, "workers", "limit @0 :UInt32;", "limit @0 :Limit;")
    (finding,) = release.check(tree)
    assert finding.startswith("1.0: the schema cannot be loaded:")
    assert "workers.capnp" in finding and "Limit" in finding


def test_a_change_is_judged_by_every_release(tree: Any) -> None:
    """The field came with 1.1: 1.0 knows nothing of it, and 1.1 holds it."""
    edit(tree, *GOOD["a field at the end"])
    release.freeze(tree, "1.1")
    edit(tree, "session", "\n  at @1 :Float64;", "")
    assert release.check(tree) == ["1.1: session.Ping.at is gone: it was a field @1 of float64 = 0.0"]


def test_a_release_is_frozen_once(tree: Any) -> None:
    edit(tree, *GOOD["a field at the end"])
    with pytest.raises(release.ReleaseError, match=r"1\.0 is released"):
        release.freeze(tree, "1.0")
    release.freeze(tree, "1.1")
    assert release.check(tree) == []


def test_a_bad_schema_is_not_frozen(tree: Any) -> None:
    edit(tree, *BAD["a field renamed"])
    with pytest.raises(release.ReleaseError, match="limit is gone"):
        release.freeze(tree, "1.1")
    with pytest.raises(release.ReleaseError, match="limit is gone"):
        release.freeze(tree, "1.1-draft")
    assert [path.name for path in tree.releases()] == ["1.0"]


def test_a_draft_may_be_frozen_again(tree: Any) -> None:
    edit(tree, *GOOD["a field at the end"])
    release.freeze(tree, "1.1-draft")
    edit(tree, "session", "at @1 :Float64", "at @1 :UInt64")
    assert "still a draft" in release.check(tree)[0]
    release.freeze(tree, "1.1-draft")
    assert release.check(tree) == []


def test_an_edited_release_is_told(tree: Any) -> None:
    with (tree.released / "1.0" / "session.capnp").open("a", encoding="utf-8") as file:
        file.write("# harmless, one would think\n")
    assert release.check(tree) == ["1.0: its files and HASHES disagree; a frozen release is never edited"]
