"""How the scheduler chooses a worker."""

from __future__ import annotations

import enum


class AllocatePolicy(enum.Enum):
    even = "even"
    capability = "capability"
