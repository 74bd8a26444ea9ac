"""How many workers each manager is asked for: pure functions of what is there and what is to do.

A policy sees `Demand`s (so many workers would be of use, for tasks with this requirement), the workers that belong to
no manager, and `Source`s (the managers, in the order in which they are asked). It answers with one absolute number for
each manager. It has no memory: what is on its way counts as present, so asking again asks for nothing more, and the
patience that keeps the number from flapping is the controller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scaler_protocol.ids import PeerId
from scaler_protocol.records import dataclass
from scaler_scheduler.core.entities.requirements import Requirement, offers
from scaler_scheduler.core.policy import NONE, WATERFALL, Scaling


class Demand(NamedTuple):
    requirement: Requirement
    worker_count: int


@dataclass(frozen=True, slots=True)
class Source:
    """A manager, as a policy sees it."""

    peer_id: PeerId
    name: str
    offer: Mapping[str, int]
    max_workers: int
    workers_per_unit: int
    present: int  #: workers that run or are on their way
    is_troubled: bool = False  #: it cannot start any at the moment

    @property
    def room(self) -> int:
        """How many workers it can have, in whole units."""
        limit = self.present if self.is_troubled else self.max_workers
        return limit - limit % self.workers_per_unit


def wanted(
    scaling: Scaling, demands: Sequence[Demand], own: Iterable[Mapping[str, int]], sources: Sequence[Source]
) -> dict[PeerId, int]:
    """The number of workers for each manager. `own` is what each worker without a manager offers."""
    if scaling.policy == NONE:
        return {source.peer_id: source.present for source in sources}
    asked = _in_turn(scaling, sources)
    counts = {source.peer_id: 0 for source in sources}
    own = list(own)
    # Those who need most find the fewest workers: they choose first.
    for requirement, worker_count in sorted(demands, key=lambda demand: -len(demand.requirement)):
        missing = worker_count - _take(own, requirement, worker_count)
        for source, limit in asked:
            if missing <= 0:
                break
            if not offers(source.offer, requirement):
                continue
            added = min(missing, limit - counts[source.peer_id])
            if added > 0:
                counts[source.peer_id] += added
                missing -= added
    return {source.peer_id: _whole_units(source, counts[source.peer_id]) for source in sources}


def _in_turn(scaling: Scaling, sources: Sequence[Source]) -> list[tuple[Source, int]]:
    """Managers in the order in which they are filled, each with its limit; a waterfall has only those it names."""
    if scaling.policy != WATERFALL:
        return [(source, source.room) for source in sources]
    by_name = {source.name: source for source in sources}
    turn = []
    for tier in sorted(scaling.tiers, key=lambda tier: tier.priority):
        source = by_name.get(tier.manager_name)
        if source is not None:
            turn.append((source, source.room if tier.max_workers < 0 else min(source.room, tier.max_workers)))
    return turn


def _take(own: list[Mapping[str, int]], requirement: Requirement, worker_count: int) -> int:
    """Use up so many of these workers that fit, and say how many there were."""
    fitting = [worker for worker in own if offers(worker, requirement)][: max(0, worker_count)]
    for worker in fitting:
        own.remove(worker)
    return len(fitting)


def _whole_units(source: Source, worker_count: int) -> int:
    units = -(-worker_count // source.workers_per_unit)
    return min(units * source.workers_per_unit, source.room)
