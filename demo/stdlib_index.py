"""The work: read and tokenise one module, and merge what was found, up a tree, into one index.

Everything a task takes or gives is a plain value, so the same functions run here, in a worker, and in the check.
"""

import keyword
import sysconfig
import token
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

#: Not the library but what tests it, what users added to it, and what is not meant to be read.
SKIPPED = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "lib2to3"}

#: How many summaries one task merges. Wide enough that merging does not dominate, narrow enough to stay parallel.
FAN_IN = 8
LONGEST_COUNT = 3


class Summary(TypedDict):
    """An index of some modules."""

    modules: int
    lines: int
    tokens: int
    #: the longest ones first
    longest: list[tuple[int, str]]
    #: name -> how often it is used
    names: Counter[str]


def find_modules() -> dict[str, str]:
    """Name and path of every module of the standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = (path for path in root.rglob("*.py") if SKIPPED.isdisjoint(path.relative_to(root).parts))
    return {module_name(path.relative_to(root)): str(path) for path in sorted(paths)}


def module_name(path: Path) -> str:
    pieces = path.with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)


def read_module(name: str, path: str) -> Summary:
    names: Counter[str] = Counter()
    tokens = 0
    with tokenize.open(path) as file:
        for found in tokenize.generate_tokens(file.readline):
            tokens += 1
            if found.type == token.NAME and not keyword.iskeyword(found.string):
                names[found.string] += 1
    lines = found.start[0] - 1  # the last token stands behind the last line
    return {"modules": 1, "lines": lines, "tokens": tokens, "longest": [(lines, name)], "names": names}


def merge(*summaries: Summary) -> Summary:
    names: Counter[str] = Counter()
    for summary in summaries:
        names.update(summary["names"])
    longest = sorted((entry for summary in summaries for entry in summary["longest"]), reverse=True)
    return {
        "modules": sum(summary["modules"] for summary in summaries),
        "lines": sum(summary["lines"] for summary in summaries),
        "tokens": sum(summary["tokens"] for summary in summaries),
        "longest": longest[:LONGEST_COUNT],
        "names": names,
    }


def graph_of(modules: dict[str, str]) -> tuple[dict[str, Any], str, list[str]]:
    """The whole index as a graph: it, the key of the index, and the keys of the single modules."""
    graph: dict[str, Any] = {}
    leaves = []
    for name, path in modules.items():
        graph[f"name of {name}"], graph[f"path of {name}"] = name, path
        graph[f"module {name}"] = (read_module, f"name of {name}", f"path of {name}")
        leaves.append(f"module {name}")
    level, height = leaves, 0
    while len(level) > 1 or height == 0:
        height += 1
        level = list(merged(graph, level, height))
    return graph, level[0], leaves


def merged(graph: dict[str, Any], keys: list[str], height: int) -> Iterator[str]:
    for start in range(0, len(keys), FAN_IN):
        key = f"merge {height}.{start // FAN_IN}"
        graph[key] = (merge, *keys[start : start + FAN_IN])
        yield key


def index_alone(modules: dict[str, str]) -> Summary:
    """The same index in this process, for comparison."""
    return merge(*(read_module(name, path) for name, path in modules.items()))
