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
