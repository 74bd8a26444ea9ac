"""The arrows: a role knows the protocol and nobody else; within a role they go `__main__ → service → core`."""

import ast

import pytest

from tests.architecture.sources import OUR_PACKAGES, PARTS, Import, imports, modules, relative, syntax

#: The conformance suite speaks the schema itself, so it does not even know our protocol package.
MAY_IMPORT = {
    "protocol": set(),
    "client": {"scaler_protocol"},
    "scheduler": {"scaler_protocol"},
    "worker": {"scaler_protocol"},
    "storage": {"scaler_protocol"},
    "symphony": {"scaler_protocol"},
    "conformance": set(),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_imports_no_other_role(name: str) -> None:
    part = PARTS[name]
    allowed = MAY_IMPORT[name] | {part.package}
    wrong = [found for path in modules(part) for found in imports(path) if found.top in OUR_PACKAGES - allowed]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("name", ["client", "scheduler", "worker", "storage"])
def test_a_core_knows_no_shell(name: str) -> None:
    part = PARTS[name]
    cores = [path for path in modules(part) if "core" in path.relative_to(part.source).parts[:-1]]
    assert cores, f"{part.package} has no core/ folder"
    wrong = [found for path in cores for found in imports(path) if is_shell(found, part.package)]
    assert not wrong, "\n".join(map(str, wrong))


def is_shell(found: Import, package: str) -> bool:
    """A core uses the protocol's records and its own package's core and config; the rest of the package is shell."""
    pieces = found.module.split(".")
    if pieces[0] == package:
        inner = pieces[1:]
        return "core" not in inner[:-1] and inner[:1] not in (["core"], ["config"]) and inner[1:2] != ["core"]
    return found.module.startswith(("scaler_protocol.transport", "scaler_protocol.process"))


@pytest.mark.parametrize("name", ["scheduler", "worker", "storage"])
def test_nobody_imports_a_main_module(name: str) -> None:
    wrong = [found for path in modules(PARTS[name]) for found in imports(path) if "__main__" in found.module]
    assert not wrong, "\n".join(map(str, wrong))


def test_packages_say_who_they_are() -> None:
    missing = [relative(part.source) for part in PARTS.values() if not (part.source / "py.typed").exists()]
    assert not missing, f"without py.typed: {missing}"


def test_package_initialisers_only_re_export() -> None:
    """An `__init__.py` holds imports and names, and at most `__getattr__`, which imports some when they are asked for,
    and `__dir__`, which lists them. Every import of any part pays for work that is done there."""
    functions = ("__getattr__", "__dir__")
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.If)
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for part in PARTS.values()
        for path in modules(part)
        if path.name == "__init__.py"
        for node in syntax(path).body
        if not isinstance(node, allowed) and not (isinstance(node, ast.FunctionDef) and node.name in functions)
    ]
    assert not wrong, f"code in a package initialiser: {wrong}"


#: The rooms of the scheduler's core, from those that know nothing of the others to those that know all below them.
ROOMS = (
    ("actions", "policy"),
    ("entities",),
    ("notes",),
    ("tables",),
    ("ending",),
    ("placing", "succession"),
    ("scaling", "accepting", "peers"),
    ("watching",),
    ("invariants", "core"),
)


def test_rooms_of_the_scheduler_know_only_those_below() -> None:
    core = PARTS["scheduler"].source / "core"
    level = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    there = {
        path.relative_to(core).with_suffix("").parts[0] for path in modules(PARTS["scheduler"]) if core in path.parents
    }
    assert there - {"__init__"} == level.keys()
    wrong = []
    for path in core.glob("*/*.py"):
        room = path.parent.name
        for found in imports(path):
            pieces = found.module.split(".")
            if pieces[:2] == ["scaler_scheduler", "core"] and len(pieces) > 2 and pieces[2] != room:
                wrong += [] if level.get(pieces[2], len(ROOMS)) < level[room] else [str(found)]
    assert not wrong, "\n".join(wrong)
