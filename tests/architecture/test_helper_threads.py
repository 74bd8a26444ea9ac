"""A thread beside the main one answers what waits for it, or ends the process, whatever its code raises.

Python ends a thread that raises, writes a traceback to standard error at best, and goes on. What waits for the thread
then waits for ever, in a process that looks well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PARTS, modules, relative, syntax

STARTS = {"Thread": "target", "start_new_thread": 0, "Timer": 1}
"""The calls that start a thread, and which of their arguments the thread calls."""

NEEDLESS = {
    "scaler/client/client.py: self._leave_after": "its `finally` disconnects the client, which ends what waits",
    "scaler/client/io/background.py: self._work": "`do` of this module catches everything, for each job",
    "scaler/client/io/dropping.py: job": "it cancels tasks that no object waits for, as their client's end does too",
    "scaler/ui/__main__.py: playback.measure": "a recording whose length is not known is shown without it",
    "scaler_symphony/time_limit.py: interrupt": "two calls that cannot fail, for a thread that ends by itself as well",
    "scaler_worker/processor/interrupts.py: _signal_later": "a sleep and a signal to its own process",
    "scaler_worker/processor/loop.py: os._exit": "it ends the process",
    "scaler_worker/processor/sampling.py: self._run": "its `finally` lets the next request for samples start another",
}
"""Tops that need no handler, and why."""

CALLS = ("ThreadPoolExecutor",)
"""Executors of ours. An exception of a job is in a future, which we do not read: their jobs are tops as well."""


def _started(tree: ast.Module) -> Iterator[ast.expr]:
    """Yields what the threads call that this module starts."""
    has_executor = any(isinstance(node, ast.Call) and _name(node.func) in CALLS for node in ast.walk(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        where = STARTS.get(_name(node.func), "")
        if has_executor and _name(node.func) == "submit":
            where = 0
        if isinstance(where, int):
            yield node.args[where]
        elif where:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == where)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _tops() -> dict[str, ast.FunctionDef | None]:
    """By module and source text: the function that a thread calls, if it stands in the same module."""
    tops: dict[str, ast.FunctionDef | None] = {}
    for part in PARTS.values():
        if part.package == "scaler_conformance":
            continue
        for path in modules(part):
            tree = syntax(path)
            functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            for called in _started(tree):
                is_own = isinstance(called, ast.Name) or ast.unparse(called).startswith("self.")
                tops[f"{_short(path)}: {ast.unparse(called)}"] = functions.get(_name(called)) if is_own else None
    return tops


def _short(path: Path) -> str:
    return relative(path).partition("/src/")[2]


def _catches_everything(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.ExceptHandler) and (node.type is None or _name(node.type) == "BaseException")
        for node in ast.walk(function)
    )


TOPS = _tops()


def test_the_threads_are_found() -> None:
    """Else the rule would hold for none."""
    assert {"scaler_storage/spill_files.py: self._run", "scaler/client/io/connection.py: self._run"} <= set(TOPS)
    assert {"scaler_symphony/objects.py: self._fetch", "scaler/client/futures/looping.py: self._work"} <= set(TOPS)
    assert not set(NEEDLESS) - set(TOPS), "an exception for a thread that is gone"


def test_no_class_is_a_thread() -> None:
    """Checks that no class is a thread: its `run` would have no name at the place where the thread is started."""
    inside = [path for part in PARTS.values() for path in modules(part) if part.package != "scaler_conformance"]
    wrong = [
        f"{relative(path)}: {node.name}"
        for path in inside
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef) and any(_name(base) in ("Thread", "Timer") for base in node.bases)
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("top", sorted(set(TOPS) - set(NEEDLESS)))
def test_a_thread_answers_whatever_it_meets(top: str) -> None:
    function = TOPS[top]
    assert function is not None, "the function cannot be found: start the thread with one of the same module"
    assert _catches_everything(function), "give it an `except BaseException`: see scaler_storage.spill_files"
