"""The policy as operators write it."""

from __future__ import annotations

import pytest

from scaler_protocol.process import UsageError
from scaler_scheduler.core.policy import CAPABILITY, NONE, VANILLA, WATERFALL, Scaling, Tier
from scaler_scheduler.policy_text import PolicyChoice, parse_policy


@pytest.mark.parametrize(
    "content, choice",
    [
        ("", PolicyChoice("even", Scaling(VANILLA))),
        ("allocate=even_load; scaling=no", PolicyChoice("even", Scaling(NONE))),
        ("scaling = capability ; allocate = capability", PolicyChoice("capability", Scaling(CAPABILITY))),
    ],
)
def test_simple(content: str, choice: PolicyChoice) -> None:
    assert parse_policy("simple", content) == choice


def test_a_waterfall() -> None:
    text = """
    # our own machines, then the grid
    2, grid, 100
    1, here
    """
    tiers = (Tier(1, "here"), Tier(2, "grid", 100))
    assert parse_policy("waterfall_v1", text) == PolicyChoice("capability", Scaling(WATERFALL, tiers))


@pytest.mark.parametrize(
    "engine, content, text",
    [
        ("simple", "scaling", "neither allocate=… nor scaling=…"),
        ("simple", "scaling=much", "is none of: no, vanilla, capability"),
        ("simple", "allocate=odd", "is none of: even, even_load, capability"),
        ("waterfall_v1", "# nothing", "one line for each manager"),
        ("waterfall_v1", "1,a\n2,a", "the manager a has more than one line"),
        ("waterfall_v1", "first,a", "is not of the form priority,manager"),
        ("waterfall_v1", "1,a,many", "is not of the form priority,manager"),
    ],
)
def test_mistakes(engine: str, content: str, text: str) -> None:
    with pytest.raises(UsageError, match=r"--policy-content: ") as caught:
        parse_policy(engine, content)
    assert text in str(caught.value)
