"""The API reference: what it lists has a docstring, and each parameter of a call is explained there."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from scaler.utility import exceptions
from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "reference" / "api.md"

MADE_BY_PROGRAMS = frozenset((
    "Client", "Cluster", "SchedulerClusterCombo", "ScalerBackend", "TracedClient", "Subscription", "Watcher",
    "Recorder", "Recording", "Playback",
))  # fmt: skip
"""Classes whose constructors are for programs. Instances of the others are returned by a call."""

CANNOT_FAIL = frozenset((
    "scaler.Cluster.join", "scaler.load_ipython_extension", "scaler.monitoring.FunctionFigures.quantile",
    "scaler.monitoring.Playback.ask", "scaler.monitoring.Playback.jump", "scaler.monitoring.Playback.play",
    "scaler.monitoring.Playback.poll", "scaler.monitoring.Recorder.write", "scaler.monitoring.Recording.after",
    "scaler.monitoring.Subscription.ask", "scaler.monitoring.Subscription.nothing_answers",
    "scaler.monitoring.Subscription.poll", "scaler.monitoring.Watcher.__init__", "scaler.monitoring.Watcher.ask",
    "scaler.monitoring.functions_of", "scaler.monitoring.users_of",
))  # fmt: skip
"""Calls with parameters that raise nothing on purpose."""

ERRORS_ELSEWHERE = {"CancelledError", "ClusterStartError", "MonitorError", "RecordingError", "graphlib.CycleError"}
"""Neither builtins nor in `scaler.utility.exceptions`."""


class Entry(NamedTuple):
    thing: Any
    owner: type | None  #: the class, if it is a member of one


def _found(path: str) -> Any:
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(f"there is no {path}")


def _of_class(path: str, kind: type, members: list[str]) -> Iterator[tuple[str, Entry]]:
    yield path, Entry(kind, None)
    if kind.__name__ in MADE_BY_PROGRAMS:
        yield f"{path}.__init__", Entry(inspect.getattr_static(kind, "__init__"), kind)
    for name in members:
        yield f"{path}.{name}", Entry(inspect.getattr_static(kind, name, None), kind)


def _public(kind: type) -> list[str]:
    return [name for name in {**vars(kind), **getattr(kind, "__annotations__", {})} if not name.startswith("_")]


def _entries() -> Iterator[tuple[str, Entry]]:
    text = PAGE.read_text(encoding="utf-8")
    for directive, path, block in re.findall(r"^\.\. auto(class|function|module):: (\S+)\n((?:^ +.*\n)*)", text, re.M):
        thing = _found(path)
        options = dict(re.findall(r"^ +:([\w-]+):(.*(?:\n +[^ :].*)*)", block, re.M))
        listed = options.get("members", "").replace(",", " ").split()
        if directive == "function":
            yield path, Entry(thing, None)
        elif directive == "class":
            yield from _of_class(path, thing, listed or (_public(thing) if "members" in options else []))
        elif "members" in options:
            for name in listed or thing.__all__:
                one = getattr(thing, name)
                is_class = isinstance(one, type)
                yield from (
                    _of_class(f"{path}.{name}", one, _public(one))
                    if is_class
                    else [(f"{path}.{name}", Entry(one, None))]
                )


ENTRIES = dict(_entries())


def _text(thing: Any) -> str:
    """Its own docstring: one that is inherited says what another class does."""
    function = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    return inspect.cleandoc(function.__doc__ or "")


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def _calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, (thing, _) in ENTRIES.items():
        function = getattr(thing, "__func__", thing)
        if inspect.isfunction(function) and _parameters(function):
            yield name, function


CALLS = dict(_calls())


def test_the_page_lists_what_is_there() -> None:
    assert len(ENTRIES) > 150 and len(CALLS) > 50
    assert {"scaler.Client.submit_verbose", "scaler.Client.__init__", "scaler.Cluster.join"} <= CALLS.keys()
    assert not {"scaler.ScalerFuture.__init__", "scaler.joblib.ScalerBackend.submit"} & ENTRIES.keys()


@pytest.mark.parametrize("name", CALLS)
def test_each_parameter_is_explained(name: str) -> None:
    """By a line of its own below `Args:` that begins with its name."""
    section = _text(CALLS[name]).partition("Args:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    \*{0,2}(\w+): \S", section, re.M) == _parameters(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_the_errors_of_a_call_are_named(name: str) -> None:
    raised = re.findall(r"^    (\w[\w., ]*): \S", _text(CALLS[name]).partition("Raises:\n")[2], re.M)
    assert bool(raised) is (name not in CANNOT_FAIL)
    for error in ", ".join(raised).split(", ") if raised else []:
        assert error in ERRORS_ELSEWHERE or hasattr(builtins, error) or hasattr(exceptions, error), error


def _field_texts(kind: type) -> dict[str, str]:
    """What the comments beside the fields of a class say. The site shows them."""
    analyzer = pytest.importorskip("sphinx.pycode").ModuleAnalyzer
    found = analyzer.for_module(kind.__module__).find_attr_docs()
    return {name: " ".join(lines).strip() for (owner, name), lines in found.items() if owner == kind.__qualname__}


def test_each_name_is_explained() -> None:
    """Sphinx leaves out what has no docstring."""
    missing = []
    for name, (thing, owner) in ENTRIES.items():
        is_field = owner is not None and not (inspect.isroutine(thing) or isinstance(thing, property))
        is_field = is_field or inspect.ismemberdescriptor(thing)
        found = _field_texts(owner).get(name.rpartition(".")[2]) if owner and is_field else _text(thing)
        if not found:
            missing.append(name)
    assert not missing
