"""No case minds another way to be right. Everyday some cases of one variant; all of them when FULL is set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conformance.mutants.hunt import port_of
from conformance.mutants.registry import legal_variants

sys.path.insert(0, str(Path(__file__).parent))
import support

from scaler_conformance import known
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Settings

EVERYDAY = ("storage/FRM-6/envelopes-of-many-segments",)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", legal_variants() if support.IS_FULL else EVERYDAY)
def test_a_legal_variant_conforms(name: str) -> None:
    variant = legal_variants()[name]
    layers = ("directed", "hostile", "generated", "timing") if support.IS_FULL else ("directed",)
    settings = Settings(everyday_examples=support.EVERYDAY_EXAMPLES)
    runner = Runner(port_of(variant), variant.role, known=known.read(support.OURS.parent), settings=settings)
    outcomes = runner.run(support.cases_of(variant.role, *layers))
    assert not support.failures(outcomes), support.failures(outcomes)
