"""Our roles pass their own suite: every layer, the generated one with fewer sequences than in a nightly run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import support

ROLES = ("scheduler", "storage")
LAYERS = ("vectors", "directed", "hostile", "generated", "timing")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_of_ours_conforms(role: str, layer: str) -> None:
    cases = support.cases_of(role, layer)
    if not cases:
        pytest.skip(f"no case of the layer {layer} is for a {role}")
    outcomes = support.play(role, cases)
    assert len(outcomes) == len(cases)
    assert not support.failures(outcomes), support.failures(outcomes)
