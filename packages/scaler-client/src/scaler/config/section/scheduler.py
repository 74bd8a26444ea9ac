"""The policy of a scheduler that a program starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PolicyConfig:
    """As `--policy-engine-type` and `--policy-content` of `scaler_scheduler`."""

    policy_engine_type: str = "simple"
    policy_content: str = "allocate=even_load; scaling=no"
