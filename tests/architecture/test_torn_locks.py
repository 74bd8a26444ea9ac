"""What an interrupt can leave locked is not used where threads of the program come by."""

import ast

from tests.architecture.sources import PARTS, modules, relative, syntax

TORN = {"Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
"""Their methods are Python, and take a lock in a step of their own. An exception that comes up right after that step,
such as Ctrl-C, leaves it locked, and the thread that next sets or notifies stands still. Use `waits.Event`."""


def test_no_lock_of_python_is_taken_in_threads_of_the_program() -> None:
    folders = [
        PARTS["client"].source / "client",
        *(PARTS["protocol"].source / name for name in ("objects", "transport")),
    ]
    paths = [path for part in ("client", "protocol") for path in modules(PARTS[part])]
    inside = [path for path in paths if any(folder in path.parents for folder in folders)]
    assert inside
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for path in inside
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in TORN) == ("threading", True)
    ]
    assert not wrong, wrong


HELD_WITHOUT_WITH = {"sleeper", "_inspected", "_starting"}
"""Locks that are taken and released by calls, each of which is prepared for an interrupt; and one that only servers
take, as they begin to listen."""


def test_with_is_used_on_locks_that_an_interrupt_releases() -> None:
    """From Python 3.14 on, an exception of a signal's handler may leave a `threading.Lock` locked at the begin of a
    `with`. The locks of `waits` are released then."""
    inside = [path for part in ("client", "protocol") for path in modules(PARTS[part]) if path.name != "waits.py"]
    inside += [path for path in modules(PARTS["worker"]) if path.parent.name == "processor"]
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for path in inside
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Return)
        and node.value is not None
        and any(ast.unparse(one) in ("threading.Lock()", "threading.RLock()") for one in ast.walk(node.value))
        and not names_of(node) & HELD_WITHOUT_WITH
    ]
    assert not wrong, wrong


def names_of(node: ast.Assign | ast.AnnAssign | ast.Return) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Name("returned"))]
    return {getattr(target, "id", getattr(target, "attr", "")) for target in targets}
