"""Holds what an operator chose for a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from scaler_protocol.records import dataclass

NONE = "no"


VANILLA = "vanilla"


CAPABILITY = "capability"


WATERFALL = "waterfall"


class Tier(NamedTuple):
    """A line of a waterfall: the lowest priority number is asked first. `max_workers` below zero: no further bound."""

    priority: int
    manager_name: str
    max_workers: int = -1


@dataclass(frozen=True, slots=True)
class Scaling:
    """What an operator chose."""

    policy: str = VANILLA
    tiers: tuple[Tier, ...] = ()
    tasks_per_worker: float = 10.0  #: as long as nothing has been measured
    horizon_seconds: float = 5.0  #: a worker more is of use when the tasks would keep the others busy for so long
    patience_seconds: float = 10.0  #: how long fewer workers must have been enough before any is stopped


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator chose."""

    lost_workers_limit: int = 3
    lost_processors_limit: int = 3  #: for tasks whose header says nothing (SCH-75)
    load_balance_seconds: float = 1.0  #: between two looks; zero or less: never
    load_balance_trigger_times: int = 2  #: how many looks in a row must find something to move
    user_tasks: int = 10_000_000  #: that each user may have unfinished (LIM-35)
    user_task_bytes: int = 4 << 30  #: of their arguments
    waiting_limit: int = -1  #: how many tasks may wait for a worker; below zero: any number
    is_protected: bool = False
    shows_texts: bool = False  #: monitors see tracebacks and stacks of tasks (MON-33, MON-42)
    allows_control: bool = False  #: operators at monitors cancel tasks and let workers leave (MON-49)
    #: between two namings of the clients that live (OWN-20): no shorter than the lease of clients
    owner_grace_seconds: float = 60.0
    scaling: Scaling = field(default_factory=Scaling)
    user_weights: Mapping[str, float] = field(default_factory=dict)  #: of users whose share is not 1 (SCH-92)
