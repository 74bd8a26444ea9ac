"""Two schedulers on two hosts: links between hosts are cut, so that both serve and each sees a part of the cluster; and
one of the hosts vanishes. (SCH-80 to SCH-83)

Laws: each future ends right, and is told once; when the links are whole again, the one with the lower generation ends,
begins again as a standby, and the other one goes on with all tasks. If the link between the two is all that was cut,
nothing begins twice.

`make test` plays some with a lease of 1 s, which a cut of 3 s is longer than; `make chaos` plays more, with the lease
that is the default, for 3, 20 and 90 s.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.support.chaos import IS_FULL, SEED
from tests.support.host_pair import CLIENT_HOSTS, ONE, SCHEDULERS, TWO, WORKER_HOSTS, Cut, HostPair
from tests.support.processes import Stage

#: Peers notice after three heartbeats, and find the other scheduler within two seconds more.
QUICK = ("--heartbeat-seconds", "0.3", "--standby-lease-seconds", "1")
GO_ON_SECONDS = 15.0
COUNTS = {"small": 600, "long": 16, "large": 60, "graph": 180, "nested": 40}
#: Which of the two hosts one way is cut; both is as when a cable is pulled.
LINKS: dict[str, set[Cut]] = {
    "both ways": {(ONE, TWO), (TWO, ONE)},
    "from the first": {(ONE, TWO)},
    "from the second": {(TWO, ONE)},
}
SEEN = ("one", "two", "both")


class Parting(NamedTuple):
    link: str
    seconds: float
    #: which scheduler each host with workers or a client reaches meanwhile
    views: tuple[str, ...]
    kinds: tuple[str, str]

    @property
    def name(self) -> str:
        return f"{self.link}-{self.seconds:g}-{'-'.join(self.views)}-{'-'.join(self.kinds)}".replace(" ", "_")

    @property
    def cuts(self) -> set[Cut]:
        cuts = set(LINKS[self.link])
        for host, seen in zip((*WORKER_HOSTS, *CLIENT_HOSTS), self.views, strict=True):
            for other in SCHEDULERS:
                if seen not in (other, "both"):
                    cuts |= {(host, other), (other, host)}
        return cuts


BOTH = ("both",) * 4


def partings() -> list[Parting]:
    rng = Random(SEED)
    kinds = sorted(COUNTS)

    def drawn(link: str, seconds: float, views: tuple[str, ...]) -> Parting:
        one, other = rng.sample(kinds, 2)
        return Parting(link, seconds, views, (one, other))

    # The link alone; the cluster in halves; and each host with a view of its own.
    links = list(LINKS) if IS_FULL else [rng.choice(list(LINKS))]
    halves = ("one", "two", "two", "one")
    durations = (3.0, 20.0) if IS_FULL else (3.0,)
    played = [drawn(link, seconds, BOTH) for link in links for seconds in durations]
    played += [drawn("both ways", seconds, halves) for seconds in durations]
    if IS_FULL:
        played += [drawn("both ways", 90.0, views) for views in (BOTH, halves)]
    for _ in range(6 if IS_FULL else 1):
        views = tuple(rng.choice(SEEN) for _ in BOTH)
        played.append(drawn(rng.choice(list(LINKS)), rng.choice(durations), views))
    return played


@pytest.fixture(scope="module")
def pair(hosts_are_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostPair]:
    with Stage(tmp_path_factory.mktemp("pair")) as stage:
        pair = HostPair(stage, *(() if IS_FULL else QUICK))
        yield pair
        pair.close()


@pytest.mark.parametrize("parting", partings(), ids=lambda parting: parting.name)
def test_a_parting(pair: HostPair, parting: Parting) -> None:
    before = {name: pair.generation(name) for name in SCHEDULERS}
    running = [
        pair.start_work(host, kind, COUNTS[kind], timeout=parting.seconds + 60.0)
        for host, kind in zip(CLIENT_HOSTS, parting.kinds, strict=True)
    ]
    for one in running:
        one.wait_until_begun(4)
    pair.cut(parting.cuts)
    try:
        threading.Event().wait(parting.seconds)
    finally:
        pair.heal(parting.cuts)
    outcomes = [one.outcome(parting.seconds + 4 * GO_ON_SECONDS) for one in running]
    serving = pair.wait_until_one_serves()
    for one, outcome in zip(running, outcomes, strict=True):
        print(f"{parting.name}: {outcome.text}; {one.begun.reruns} begun again; {outcome.seconds:.1f} s; {serving}")
        assert not (outcome.wrong or outcome.hanging or outcome.twice), outcome.text
        assert outcome.right == outcome.count, outcome.text
        assert outcome.seconds < parting.seconds + GO_ON_SECONDS + 15.0, "work goes on soon after the links are whole"
        if parting.views == BOTH:
            assert not one.begun.reruns, f"{one.begun.times}"
    other = TWO if serving == ONE else ONE
    assert pair.generation(serving) >= pair.generation(other)
    if not IS_FULL:
        assert pair.generation(serving) > before[other], "both have served, and the one that was longer at it has ended"


@pytest.mark.usefixtures("hosts_are_possible")
def test_the_scheduler_that_serves_is_far_away(tmp_path: Path) -> None:
    """And its standby is near, and answers at once. Peers wait long enough for the one that serves. (HSK-41)"""
    with Stage(tmp_path) as stage:
        pair = HostPair(stage, *QUICK, relay_seconds=0.3 if IS_FULL else 0.1)
        try:
            pair.schedulers[ONE].end(signal.SIGTERM)
            pair.schedulers[TWO].wait_for("serve with generation")
            pair.start_scheduler(ONE)
            pair.schedulers[ONE].wait_for("serves with generation")
            running = [pair.start_work(host, "small", 20) for host in CLIENT_HOSTS]
            for one in running:
                outcome = one.outcome(60.0)
                assert outcome.right == outcome.count and not outcome.twice, outcome.text
        finally:
            pair.close()


@pytest.mark.usefixtures("hosts_are_possible")
def test_the_host_of_a_scheduler_vanishes_and_comes_back(tmp_path: Path) -> None:
    """No connection is closed: each peer notices by itself, and turns to the other one."""
    with Stage(tmp_path) as stage:
        pair = HostPair(stage, *QUICK)
        try:
            running = pair.start_work(CLIENT_HOSTS[0], "long", COUNTS["long"])
            running.wait_until_begun(4)
            pair.network.cut(ONE)
            gone_at = time.monotonic()
            pair.schedulers[TWO].wait_for("serve with generation")
            print(f"serves after {time.monotonic() - gone_at:.2f} s")
            outcome = running.outcome(60.0)
            print(f"{outcome.text} in {outcome.seconds:.1f} s; pause {running.begun.pause_after(gone_at):.1f} s")
            assert outcome.right == outcome.count and not outcome.twice, outcome.text
            assert not running.begun.reruns
            pair.network.heal(ONE)
            pair.schedulers[ONE].wait_for("another scheduler serves with generation")
            assert pair.wait_until_one_serves() == TWO
        finally:
            pair.close()
