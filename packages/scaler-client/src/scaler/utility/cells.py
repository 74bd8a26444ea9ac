"""A notebook's cell as a task. Workers import this; they need no notebook."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from scaler_protocol.values import dumps


class CellError(Exception):
    """A cell cannot run as a task, or cannot give back what it has assigned."""


def names_used(source: str) -> list[str]:
    """Every name that a cell reads, also inside of its functions."""
    found = {node.id: None for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return [name for name in found if not hasattr(builtins, name)]


def run_cell(source: str, inputs: dict[str, Any], wanted: list[str] | None) -> tuple[dict[str, Any], Any]:
    """In the worker: the names that the cell has assigned, or those that are wanted, and its last value."""
    tree = ast.parse(source, "<cell>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    names: dict[str, Any] = {"__name__": "__main__", **inputs}
    exec(compile(tree, "<cell>", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # type: ignore[attr-defined]
    if wanted is None:
        wanted = [name for name in names if not name.startswith("__") and names[name] is not inputs.get(name, names)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise CellError(f"the cell assigns no {', '.join(missing)}")
    for name in wanted:
        try:
            dumps(names[name])
        except Exception as error:  # noqa: BLE001 whatever pickling raises
            raise CellError(
                f"{name!r} cannot be given back to the notebook ({error}): name what shall be, with %%scaler -o NAMES"
            ) from None
    return {name: names[name] for name in wanted}, value
