"""One run: a cluster, families one after another, and what each has done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.fuzz import below as _below  # noqa: F401 - registers its families, as do those after it
from tests.fuzz import controls as _controls  # noqa: F401
from tests.fuzz import crowds as _crowds  # noqa: F401
from tests.fuzz import doors as _doors  # noqa: F401
from tests.fuzz import handshakes as _handshakes  # noqa: F401
from tests.fuzz import monitors as _monitors  # noqa: F401
from tests.fuzz import neighbours as _neighbours  # noqa: F401
from tests.fuzz import outside as _outside  # noqa: F401
from tests.fuzz import replays as _replays  # noqa: F401
from tests.fuzz import shapes as _shapes  # noqa: F401
from tests.fuzz import widths as _widths  # noqa: F401
from tests.fuzz.arena import Arena, Verdict
from tests.fuzz.attackers import Outcome
from tests.fuzz.families import FAMILIES, Family
from tests.support.processes import Stage

BASE_SECONDS = 2.0
"""Before each family, that the bystander's calls under it are compared with."""


def runnable(access: str) -> list[str]:
    """Those that attack something with this access."""
    return [name for name in FAMILIES if access == "holder" or not FAMILIES[name].needs_keys]


def run(
    names: Sequence[str],
    seed: int,
    seconds: float,
    tell: Callable[[Verdict], object] = lambda verdict: None,
    access: str = "insecure",
    *,
    is_judged: bool = False,
) -> list[Verdict]:
    """Each family has so many seconds, and its choices from the seed and its name, so that it can be repeated alone.
    `is_judged`: also by how long the calls of the bystander take."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(names):
        with _stage() as stage:
            arena = _arena(stage, access)
            try:
                for name in names[len(verdicts) :]:
                    verdicts.append(_one(arena, name, seed, seconds, is_judged=is_judged))
                    tell(verdicts[-1])
                    if not arena.is_alive:
                        break  # the others get another one
            finally:
                arena.close()
    return verdicts


def _arena(stage: Stage, access: str) -> Arena:
    """Once more if another program was faster to take a port, or the machine was away for a while."""
    try:
        return Arena(stage, access)
    except AssertionError:
        return Arena(stage, access)


@contextmanager
def _stage() -> Iterator[Stage]:
    """Nothing of this user's own clusters is seen there, and nothing of the stage's is seen by them."""
    with tempfile.TemporaryDirectory(prefix="scaler-fuzz-") as directory:
        for name in ("config", "runtime", "stage"):
            Path(directory, name).mkdir(mode=0o700)
        places = {"XDG_CONFIG_HOME": f"{directory}/config", "XDG_RUNTIME_DIR": f"{directory}/runtime"}
        with patch.dict(os.environ, places), Stage(Path(directory, "stage")) as stage:
            for name in ("SCALER_KEY", "SCALER_KEY_FILE"):
                os.environ.pop(name, None)
            yield stage


def _one(arena: Arena, name: str, seed: int, seconds: float, *, is_judged: bool) -> Verdict:
    verdict = Verdict(
        name, f"python -m tests.fuzz --seed {seed} --seconds {seconds:g} --access {arena.access.kind} {name}"
    )
    if is_judged:
        arena.measure_base(min(BASE_SECONDS, seconds / 4))
    with arena.judged(verdict, is_judged=is_judged):
        outcome = arena.attacked(name, f"{seed}/{name}", seconds)
        verdict.kept_bytes = outcome.kept_bytes
    verdict.inputs, verdict.sessions, verdict.places = outcome.inputs, outcome.sessions, outcome.places
    verdict.deaths = outcome.deaths
    verdict.troubles += outcome.troubles
    if FAMILIES[name].has_sessions and arena.access.may_have_sessions and not outcome.sessions:
        verdict.troubles.append("no session was opened: the attack has attacked nothing")
    if not outcome.inputs:
        verdict.troubles.append("nothing was sent: the attack has attacked nothing")
    if (why := why_blind(FAMILIES[name], outcome)) and arena.access.may_have_sessions:
        verdict.troubles.append(why)
    return verdict


def why_blind(family: Family, outcome: Outcome) -> str:
    """Returns the reason if a server refused more of this attack than the family means to be refused; else nothing."""
    if family.least_accepted is None or not outcome.sessions:
        return ""
    messages, refused = outcome.audited_messages, outcome.refused_messages
    accepted = messages - refused
    if accepted and accepted >= family.least_accepted * messages:
        return ""
    return f"{refused} of the first {messages} messages were refused: the attack has attacked almost nothing"


def line_of(verdict: Verdict) -> str:
    grown = ", ".join(f"{name} +{size >> 20} MiB" for name, size in verdict.grown_bytes.items() if size >> 20)
    calls = (
        f"{verdict.calls:4} calls, median {verdict.medians.call * 1e3:.1f} ms ({verdict.call_ratio:.1f}x), of maps "
        f"{verdict.medians.map * 1e3:.1f} ms ({verdict.map_ratio:.1f}x), worst {verdict.slowest_seconds:.2f} s"
    )
    deaths = f"  attackers ended: {', '.join(verdict.deaths)}" if verdict.deaths else ""
    return f"{verdict.name:22} {verdict.inputs:10,} inputs {verdict.sessions:6,} sessions  {calls}  {grown}{deaths}"
