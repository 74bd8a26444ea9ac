"""A user with tickets of its own, who knows all ids of another user, reads and changes nothing of that user's."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

import pytest

from scaler import Client
from tests.fuzz import doors
from tests.fuzz.access import Access
from tests.fuzz.attack import Attack, Scene
from tests.fuzz.neighbours import attacked
from tests.fuzz.victims import CAPABILITIES, CAPABILITY, Victim, echo, joined
from tests.support.processes import Stage, until

SEED = 20_261_122
WAIT = 60
SECONDS = 2.0
QUIET_CALLS = 20
#: of the median call, and of a machine that is loaded
CALLS_FACTOR, CALLS_SECONDS = 10.0, 0.25


@pytest.fixture(scope="module")
def cluster(module_stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Objects are in no shared memory: processes of the storage's own account, as all of these are, could read it."""
    directory = tmp_path_factory.mktemp("keys")
    access = Access("holder", directory)
    made = Scene(access, directory, module_stage.ports(), 0, 0, module_stage.environment())
    storage, given = f"tcp://127.0.0.1:{made.port + 1}", access.arguments()
    module_stage.start("scaler_storage", storage, "--no-shared-memory", *given)
    module_stage.start("scaler_scheduler", made.address, "-osa", storage, "--allow-control", *given)
    module_stage.start(
        "scaler_worker", made.address, "-n", "2", f"--per-worker-capabilities={CAPABILITY}",
        *access.arguments(is_worker=True),
    )  # fmt: skip
    yield made
    access.close()


@pytest.fixture
def victim(cluster: Scene, tmp_path: Path) -> Iterator[Victim]:
    made = Victim(cluster.address, cluster.access.user_file("ana", tmp_path))
    yield made
    made.close()


def test_nothing_that_a_ticket_allows_reaches_another_user(cluster: Scene, victim: Victim) -> None:
    attack = Attack(cluster, random.Random(SEED), SECONDS, "p", has_sessions=True)
    victim.start()
    until(lambda: victim.rounds >= QUIET_CALLS, "the other user is served")
    quiet_count = victim.rounds
    try:
        attacked(attack, victim)
        attacked_count = victim.rounds
        until(lambda: victim.rounds >= attacked_count + 10, "the other user is served still")
    finally:
        attack.close()
    assert not attack.troubles and not victim.troubles
    quiet, under_attack = victim.seconds[5:quiet_count], victim.seconds[quiet_count:attacked_count]
    assert statistics.median(under_attack) <= max(CALLS_FACTOR * statistics.median(quiet), CALLS_SECONDS)
    assert attack.sessions >= 4 and attack.inputs > 100, "what a first turn has, however slow the machine is"


@pytest.mark.parametrize("step", doors.STEPS, ids=lambda step: str(step.__name__))
def test_every_door_is_shut_to_others(cluster: Scene, victim: Victim, step: Callable[[Attack, Victim], None]) -> None:
    """Tickets, sessions, messages and lanes that are not its own, at each port, while the other user works."""
    # Each step has a chance of its own: the same would make the peer ids of an earlier step, whose sessions may go on.
    attack = Attack(cluster, random.Random(f"{SEED} {step.__name__}"), SECONDS, "p")
    victim.start()
    until(lambda: victim.rounds >= 5, "the other user is served")
    try:
        step(attack, victim)
        count = victim.rounds
        until(lambda: victim.rounds >= count + 5, "the other user is served still")
    finally:
        attack.close()
    assert not attack.troubles and not victim.troubles
    assert attack.inputs > 0


def test_a_task_gets_no_argument_of_another_user(cluster: Scene, victim: Victim, tmp_path: Path) -> None:
    """The worker shows the storage the grant of the task's own client."""
    reference = victim.client.send_object(victim.marker)
    call = victim.client.submit_verbose(joined, (reference,), {}, capabilities=CAPABILITIES)
    assert call.result(WAIT) == victim.marker
    with Client(cluster.address, key_file=cluster.access.user_file("joe", tmp_path)) as thief:
        own = thief.send_object(b"of joe")
        assert thief.submit_verbose(echo, (own,), {}, capabilities=CAPABILITIES).result(WAIT) == b"of joe"
        assert own.handle.stored is not None
        own.handle.stored.object_id = reference.object_id
        # The worker waits 30 s for the value, which no object has for it; its own came at once.
        future = thief.submit_verbose(echo, (own,), {}, capabilities=CAPABILITIES)
        with pytest.raises(FutureTimeout):
            future.result(SECONDS)
        future.cancel()
    again = victim.client.submit_verbose(joined, (reference,), {}, capabilities=CAPABILITIES)
    assert again.result(WAIT) == victim.marker
