"""The clauses of the specification, as the suite was made for them: `data/clauses.json`, written by
`conformance/tools/clauses.py` from the chapters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from .resources import data

SERVERS = ("scheduler", "storage")
DIALERS = ("client", "worker", "manager")
ROLES = (*SERVERS, *DIALERS)

#: Which roles under test a clause binds.
BOUND = {
    "server": SERVERS,
    "dialer": DIALERS,
    "sender": ROLES,
    "receiver": ROLES,
    "peer": ROLES,
    **{role: (role,) for role in ROLES},
}


@dataclass(frozen=True, slots=True)
class Clause:
    id: str
    text: str
    level: str
    role: str
    #: wire, vector, timing or review
    testability: str
    #: why no peer can see it, for a review
    reason: str
    fingerprint: str

    @property
    def is_duty(self) -> bool:
        return self.level.startswith("MUST")

    @property
    def roles(self) -> tuple[str, ...]:
        return BOUND.get(self.role, ())


@cache
def catalog() -> dict[str, Clause]:
    entries = json.loads(data("clauses.json").read_text(encoding="utf-8"))
    return {entry["id"]: Clause(**entry) for entry in entries}
