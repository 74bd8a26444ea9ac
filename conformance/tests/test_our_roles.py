"""Our roles pass their own suite; generated sequences are fewer than in a nightly run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import support

SERVER_LAYERS = ("vectors", "directed", "hostile", "generated", "timing")
#: What takes its time is left to `make conformance FULL=1`, and to the tests when FULL is set.
DIALER_LAYERS = ("directed", "generated", "timing") if support.IS_FULL else ("directed", "generated")
#: A layer that takes minutes is played in parts, which can run beside each other.
PART_COUNTS = {("scheduler", "directed"): 3}
PLAYED = [(role, layer) for role in ("scheduler", "storage") for layer in SERVER_LAYERS]
PLAYED += [(role, layer) for role in ("worker", "client", "manager") for layer in DIALER_LAYERS]
PARTS = [(role, layer, part) for role, layer in PLAYED for part in range(PART_COUNTS.get((role, layer), 1))]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("role", "layer", "part"), PARTS)
def test_a_role_of_ours_conforms(role: str, layer: str, part: int) -> None:
    cases = support.cases_of(role, layer)[part :: PART_COUNTS.get((role, layer), 1)]
    if role in ("worker", "manager") and not support.IS_FULL:
        # How any dialer keeps its session is shown by the client: it is the same code.
        cases = [case for case in cases if case.roles == (role,) and not case.is_fresh]
    assert cases, f"no case of the layer {layer} is for a {role}"
    outcomes = support.play(role, cases)
    assert len(outcomes) == len(cases)
    assert not support.failures(outcomes), support.failures(outcomes)
