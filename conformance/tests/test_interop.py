"""Roles of several ports work together, and what goes wrong names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scaler_conformance import interop, manifest
from scaler_conformance.manifest import Manifest
from scaler_conformance.verdicts import FAIL, PASS

OURS = Path(__file__).parents[1] / "adapters" / "scaler.toml"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def ours() -> Manifest:
    return manifest.read(OURS)


def _only(port: Manifest, name: str, *roles: str) -> Manifest:
    return replace(port, name=name, roles={role: port.roles[role] for role in roles})


def test_every_combination_in_which_the_port_takes_part(ours: Manifest) -> None:
    cpp, typescript = _only(ours, "cpp", "client", "worker"), _only(ours, "typescript", "client")
    assert len(interop.casts(ours, [cpp, typescript], list(ours.roles))) == 3 * 2
    assert [cast.name for cast in interop.casts(typescript, [ours, cpp], ["client"])] == [
        "client-of-typescript-scheduler-of-scaler-worker-of-scaler",
        "client-of-typescript-scheduler-of-scaler-worker-of-cpp",
    ]
    assert interop.casts(typescript, [cpp], ["client"]) == []


def test_our_roles_work_together(ours: Manifest) -> None:
    (cast,) = interop.casts(ours, [], list(ours.roles))
    outcomes = list(interop.play(ours, cast))
    assert [(outcome.verdict, outcome.text) for outcome in outcomes] == [(PASS, "")] * len(interop.STEPS)


def test_a_worker_that_ends_is_named(ours: Manifest) -> None:
    gone = replace(ours.roles["worker"], command=("{python}", "-c", "print('no such function'); raise SystemExit(3)"))
    broken = replace(_only(ours, "broken", "worker"), roles={"worker": gone})
    (cast,) = interop.casts(broken, [_only(ours, "scaler", "client", "scheduler", "storage")], ["worker"])
    (outcome,) = interop.play(broken, cast)
    assert outcome.verdict == FAIL
    assert "the worker of broken ended by itself" in outcome.text
