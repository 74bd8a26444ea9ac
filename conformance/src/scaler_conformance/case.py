"""A case: a function that plays one situation and raises `Breach` when a clause is broken. The registry of all."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .clauses import catalog

if TYPE_CHECKING:
    from .scene import Scene

Play = Callable[["Scene"], None]
LAYERS = ("vectors", "directed", "hostile", "generated", "timing", "interop")
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    #: clause and name, such as `SCH-2/an-unfinished-id-is-refused`
    id: str
    #: the first one is blamed when a Breach names none
    clauses: tuple[str, ...]
    roles: tuple[str, ...]
    layer: str
    play: Play
    #: needs a process of its own, which may end or be spoiled
    is_fresh: bool = False
    #: needs the process started with the arguments of this variant
    variant: str = ""
    seconds: float = SECONDS

    @property
    def title(self) -> str:
        return (self.play.__doc__ or self.id.partition("/")[2].replace("-", " ")).strip().splitlines()[0]


#: By id and role: what holds for servers and for dialers alike is played in two ways, under one name.
_REGISTRY: dict[tuple[str, str], Case] = {}


def cases_for(*roles: str, layer: str = "directed") -> Callable[..., Callable[[Play], Play]]:
    """A decorator for the cases of a module: `case = cases_for("scheduler")`, then `@case("SCH-2", "ERR-1")`."""

    def case(*clauses: str, fresh: bool = False, variant: str = "", seconds: float = SECONDS) -> Callable[[Play], Play]:
        unknown = [clause for clause in clauses if clause not in catalog()]
        assert clauses and not unknown, f"no such clause: {unknown}"

        def register(play: Play) -> Play:
            add(Case(case_id(clauses[0], play.__name__), clauses, roles, layer, play, fresh, variant, seconds))
            return play

        return register

    return case


def case_id(clause: str, name: str) -> str:
    return f"{clause}/{name.replace('_', '-')}"


def add(case: Case) -> None:
    for role in case.roles:
        assert (case.id, role) not in _REGISTRY, f"two cases for a {role} are called {case.id}"
        _REGISTRY[case.id, role] = case


def all_cases() -> list[Case]:
    """In the order in which they are written. Importing the modules of `cases` registers them."""
    from . import cases

    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return list(dict.fromkeys(_REGISTRY.values()))
