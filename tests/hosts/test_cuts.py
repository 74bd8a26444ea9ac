"""Ways between hosts are cut while work runs, and whole again after a while.

Laws: each future ends right, or, where a client is cut off for longer than it waits, with a documented error; none is
told twice; work goes on within a bound after the way is whole; a cut of 3 s ends no session, so nothing begins twice.

`make test` cuts some of the ways, drawn by seed, for 3 s and one for 20 s; `make chaos` cuts all, also for 90 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from tests.support.chaos import IS_FULL, SEED
from tests.support.host_cluster import CLIENT, FIRST, SERVERS, HostCluster
from tests.support.hosts import Network

#: After the way is whole: TCP's own waits have doubled meanwhile, and dialers dial anew after 6 s of silence.
GO_ON_SECONDS = 15.0
COUNTS = {"small": 400, "long": 16, "large": 60, "graph": 120, "nested": 30}
#: How long a client and what its tasks return are waited for (`timeout_seconds`), and the lease of its session.
PATIENCE_SECONDS = 60.0


class Way(NamedTuple):
    cut: Callable[[Network], None]
    heal: Callable[[Network], None]


def _host(name: str) -> Way:
    return Way(lambda network: network.cut(name), lambda network: network.heal(name))


def _one_way(sender: str, receiver: str, *, only_storage: bool = False) -> Way:
    def addresses(network: Network) -> list[str]:
        host = network[receiver]
        return [host.second_ip] if only_storage else [host.ip, host.second_ip]

    return Way(
        lambda network: network.block(sender, *addresses(network)),
        lambda network: network.unblock(sender, *addresses(network)),
    )


WAYS = {
    "worker": _host(FIRST),
    "client": _host(CLIENT),
    "servers": _host(SERVERS),
    "to worker": _one_way(SERVERS, FIRST),
    "from worker": _one_way(FIRST, SERVERS),
    "to client": _one_way(SERVERS, CLIENT),
    "from client": _one_way(CLIENT, SERVERS),
    "worker to storage": _one_way(FIRST, SERVERS, only_storage=True),
}
_WORKERS = {"worker", "to worker", "from worker"}
#: Where neither the client nor what it waits for is cut off: other workers do the work, however long the cut is.
_OTHERS_GO_ON = {*_WORKERS, "worker to storage"}


class Cut(NamedTuple):
    way: str
    seconds: float
    kinds: tuple[str, ...]


def cuts() -> list[Cut]:
    rng = Random(SEED)
    kinds = sorted(COUNTS)
    every = [Cut(way, seconds, tuple(rng.sample(kinds, 2))) for seconds in (3.0, 20.0, 90.0) for way in WAYS]
    if IS_FULL:
        return every
    short, longer = ([cut for cut in every if cut.seconds == seconds] for seconds in (3.0, 20.0))
    return [*rng.sample(short, 3), rng.choice(longer)]


@pytest.mark.parametrize("cut", cuts(), ids=lambda cut: f"{cut.way}-{cut.seconds:g}-{'-'.join(cut.kinds)}")
def test_a_cut(cluster: HostCluster, cut: Cut) -> None:
    running = [cluster.start_work(kind, COUNTS[kind]) for kind in cut.kinds]
    for one in running:
        one.wait_until_begun(4)
    way = WAYS[cut.way]
    way.cut(cluster.network)
    try:
        threading.Event().wait(cut.seconds)
    finally:
        way.heal(cluster.network)
    outcomes = [one.outcome(cut.seconds + 4 * GO_ON_SECONDS) for one in running]
    for one, outcome in zip(running, outcomes, strict=True):
        print(f"{cut}: {outcome.text}; {one.begun.reruns} begun again; {outcome.seconds:.1f} s")
        assert not (outcome.wrong or outcome.hanging or outcome.twice), outcome.text
        if cut.seconds < PATIENCE_SECONDS or cut.way in _OTHERS_GO_ON:
            assert outcome.right == outcome.count, outcome.text
        else:
            assert not any(name.startswith("undocumented") for name in outcome.errors), outcome.text
        assert outcome.seconds < cut.seconds + GO_ON_SECONDS + 15.0, "work goes on soon after the way is whole"
        if cut.seconds < 5.0 or (cut.seconds < PATIENCE_SECONDS and cut.way not in _WORKERS):
            assert not one.begun.reruns, f"{one.begun.times}"
