"""Every family for a moment: what the bystander, memory, descriptors and logs of the servers must not show."""

from __future__ import annotations

import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scaler_conformance.wire import Unreadable, decode
from tests.architecture.sources import ROOT
from tests.fuzz import __main__ as fuzzing
from tests.fuzz import mutations
from tests.fuzz.access import ACCESS, Access
from tests.fuzz.attack import Scene
from tests.fuzz.attackers import Attackers, Outcome
from tests.fuzz.families import FAMILIES, Family
from tests.fuzz.runner import line_of, run, runnable, why_blind

SEED = 20_261_122
EACH_SECONDS = 0.4

#: Each family without keys; with them those that strangers and holders of tickets meet other code with.
RUNS = {
    "insecure": runnable("insecure"),
    "stranger": [
        *("endless-messages", "mutants-before-hello", "idle-connections", "garbage"),
        *("half-open-handshakes", "endless-handshakes", "bent-handshakes"),
    ],
    "other-role": ["mutants-in-sessions", "hellos-again", "zmtp-commands"],
    "holder": [
        *("mutants-in-sessions", "sequences", "new-sessions", "another-user", "doors", "standby"),
        *("ends-of-numbers", "zmtp-commands"),
    ],
}


@pytest.mark.parametrize("access", ACCESS)
def test_nobody_notices(access: str) -> None:
    for verdict in run(RUNS[access], SEED, EACH_SECONDS, access=access):
        assert not verdict.troubles, "\n".join([line_of(verdict), *verdict.troubles, f"again: {verdict.command}"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], dict.fromkeys(ACCESS, 1)),
        (["doors"], {"holder": 1}),
        (["--access", "insecure,holder", "doors", "garbage"], {"insecure": 2, "holder": 2}),
    ],
    ids=["each access has its turn", "what a family needs", "what was named"],
)
def test_a_run_is_with_keys_and_without(
    arguments: list[str], expected: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: dict[str, int] = {}

    def run(names: list[str], seed: int, seconds: float, tell: object, access: str, *, is_judged: bool) -> None:
        assert "doors" in arguments or set(names) <= set(runnable(access))
        ran[access] = len(names)

    monkeypatch.setattr(fuzzing, "run", run)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--seconds", "0", *arguments])
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert fuzzing.main() == 0
    assert ran == expected


def test_with_time_enough_all_families_run() -> None:
    for access in ACCESS:
        assert fuzzing.some_of([], access, 1000, SEED) == runnable(access)
        chosen = fuzzing.some_of([], access, 7, SEED)
        assert len(chosen) == 7 and chosen == [name for name in runnable(access) if name in chosen]


def test_mutations_come_from_the_seed() -> None:
    def made(seed: int) -> list[list[bytes]]:
        chance, kinds = random.Random(seed), sorted(mutations.vectors())
        return [mutations.mutated(chance, chance.choice(kinds), number) for number in range(300)]

    assert made(1) == made(1) != made(2)


def test_mutations_are_of_all_sorts() -> None:
    """Some are whole messages, else no code behind the codec is reached; most are none."""
    chance, readable = random.Random(1), 0
    for number in range(500):
        try:
            decode(mutations.mutated(chance, chance.choice(sorted(mutations.vectors())), number + 1))
            readable += 1
        except Unreadable:
            pass
    assert 50 < readable < 450


@pytest.mark.parametrize("kind", sorted(mutations.vectors()))
def test_a_number_is_written_where_it_stands(kind: str) -> None:
    for message in mutations.vectors()[kind]:
        frames = mutations.encode(message)
        changed = [mutations.numbered(frames[0], 77), *frames[1:]]
        assert decode(changed, is_lenient=True).seq == 77
        assert decode(changed, is_lenient=True).body == decode(frames, is_lenient=True).body


# ---------------------------------------------------------------- attackers that end


def test_the_death_of_an_attacker_is_counted_and_the_attack_goes_on(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT), *sys.path])
    scene = Scene(Access("insecure", tmp_path), tmp_path, 1, 2, 3, {**os.environ, "PYTHONPATH": path})
    attackers = Attackers(scene, "tests.fuzz.broken")
    try:
        outcome = attackers.run("ends-its-process", "1", 60.0)
        assert outcome.deaths == ["signal 6"] and not outcome.troubles
        assert outcome.places == {"until then": 7, "afterwards": 1}
        assert "a bug of this family" in attackers.run("raises", "1", 1.0).troubles[0]
    finally:
        attackers.close()


# ---------------------------------------------------------------- attacks that attack nothing


@pytest.mark.parametrize(
    ("messages", "refused", "is_blind"),
    [(0, 0, True), (10, 10, True), (10, 6, True), (10, 5, False), (10, 0, False)],
)
def test_a_family_that_is_refused_is_told(messages: int, refused: int, is_blind: bool) -> None:
    """Five families named another client in their Submits, and attacked nothing for a week: every run was green."""
    family = Family("half", lambda _: None, True, "", least_accepted=0.5)
    outcome = Outcome(sessions=1, audited_messages=messages, refused_messages=refused)
    assert bool(why_blind(family, outcome)) is is_blind
    assert not why_blind(replace(family, least_accepted=None), outcome)


def test_families_that_submit_mean_to_be_accepted() -> None:
    """Else nothing would be told of a family that attacks nothing."""
    aims = {name for name, one in FAMILIES.items() if one.least_accepted is not None}
    assert {"many-lines", "graphs", "large-cancels", "sums", "the-same-again", "fans", "unread-cancels"} <= aims
    assert {"empty-objects", "tiny-things", "uploads-that-stand-still", "waits-without-end"} <= aims
