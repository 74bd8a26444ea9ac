"""Locks of the client: a signal handler or a destructor may call it while its thread has one, and a child may be forked
while another thread has one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PARTS, modules, relative, syntax

CLIENT = PARTS["client"].source

RENEWED = {
    "client/client.py:_lock": "held while the client connects",
    "client/io/sharing.py:_lock": "held while a client inside of a task connects",
    "joblib.py:_lock": "held while a cluster is started",
}
"""Locks that are held for long. `os.register_at_fork` renews them in a child."""

LOST = {
    "client/future.py:_decode_lock": "a future that is unread belongs to the parent: `abandon` forgets the lock",
    "client/objects/remaking.py:_lock": "of the parent's connection",
    "client/objects/functions.py:putting": "of the parent's connection",
    "client/submitting/mapping.py:running": "of a map whose thread is the parent's",
}
"""Locks that are held for long, of what a child cannot use."""

WAITS = {"acquire", "wait", "wait_for_end", "join", "result", "finish", "connect", "open", "sleep", "opened", "local"}
"""Calls that may last."""


def sources() -> list[Path]:
    return [*(path for path in modules(PARTS["client"]) if CLIENT / "client" in path.parents), CLIENT / "joblib.py"]


def made(path: Path, *kinds: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if any(ast.unparse(one) in kinds for one in ast.walk(node.value)):
                yield getattr(target, "attr", getattr(target, "id", "")), node.lineno


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_a_lock_lets_in_the_thread_that_has_it(path: Path) -> None:
    """Else a destructor that submits waits for its own thread."""
    assert not list(made(path, "waits.Lock()"))


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_a_lock_is_renewed_at_a_fork_or_held_for_a_moment(path: Path) -> None:
    here = path.relative_to(CLIENT).as_posix()
    short = {name for name, _ in made(path, "waits.RLock()") if f"{here}:{name}" not in RENEWED | LOST}
    for node in ast.walk(syntax(path)):
        if not isinstance(node, ast.With):
            continue
        if not any(
            getattr(one.context_expr, "attr", getattr(one.context_expr, "id", "")) in short for one in node.items
        ):
            continue
        calls = [one.func for line in node.body for one in ast.walk(line) if isinstance(one, ast.Call)]
        lasting = {getattr(one, "attr", getattr(one, "id", "")) for one in calls} & WAITS
        assert not lasting, f"{here}:{node.lineno} calls {lasting} with a lock that a forked child inherits"


def test_what_is_listed_is_there() -> None:
    found = {
        f"{path.relative_to(CLIENT).as_posix()}:{name}" for path in sources() for name, _ in made(path, "waits.RLock()")
    }
    listed = RENEWED.keys() | LOST.keys() - {"client/future.py:_decode_lock"}
    assert listed <= found, listed - found


def test_each_that_is_listed_as_renewed_is_renewed() -> None:
    for name in RENEWED:
        text = (CLIENT / name.partition(":")[0]).read_text()
        assert "register_at_fork" in text or "note_locks" in text, name
