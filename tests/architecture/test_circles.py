"""No module imports itself by way of others, not even for its annotations: each can be read, and changed, by itself."""

from __future__ import annotations

import pytest

from tests.architecture.sources import PARTS, Part, imports, modules


def graph_of(part: Part) -> dict[str, set[str]]:
    """By module: the modules of the same part that it imports, anywhere in it."""
    names = {}
    for path in modules(part):
        pieces = path.relative_to(part.source.parent).with_suffix("").parts
        names[".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)] = path
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        # `from package import thing`: a module if there is one of that name, else a name in the package.
        found = [one.module if one.module in names else one.module.rpartition(".")[0] for one in imports(path)]
        graph[name] = {module for module in found if module in names and module != name}
    return graph


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, if there is any."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            found = walk(other, [*way, name])
            if found:
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        found = walk(name, [])
        if found:
            return found
    return []


def test_a_circle_is_found() -> None:
    assert circle_in({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("name", ["client", "scheduler", "worker", "storage", "symphony"])
def test_imports_go_in_no_circle(name: str) -> None:
    circle = circle_in(graph_of(PARTS[name]))
    assert not circle, " imports ".join(circle)
