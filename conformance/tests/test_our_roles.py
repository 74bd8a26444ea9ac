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
PLAYED = [(role, layer) for role in ("scheduler", "storage") for layer in SERVER_LAYERS]
PLAYED += [(role, layer) for role in ("worker", "client", "manager") for layer in DIALER_LAYERS]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("role", "layer"), PLAYED)
def test_a_role_of_ours_conforms(role: str, layer: str) -> None:
    cases = support.cases_of(role, layer)
    if role in ("worker", "manager") and not support.IS_FULL:
        # How any dialer keeps its session is shown by the client: it is the same code.
        cases = [case for case in cases if case.roles == (role,) and not case.is_fresh]
    assert cases, f"no case of the layer {layer} is for a {role}"
    outcomes = support.play(role, cases)
    assert len(outcomes) == len(cases)
    assert not support.failures(outcomes), support.failures(outcomes)
