"""What worker managers and the scheduler say to each other."""

from __future__ import annotations

from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    unit_id: str
    state: int = 0
    place: str = ""
    worker_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerStatus:
    target_number: int = 0
    max_workers: int = 0
    units: tuple[Unit, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ManagerTarget:
    number: int
    worker_count: int = 0
    stop: tuple[str, ...] = ()
