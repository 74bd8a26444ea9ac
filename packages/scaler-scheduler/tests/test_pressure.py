"""What waits to be worked off is bounded, of a peer and in total; a peer that is held back goes on (SES-33, LIM-13)."""

from __future__ import annotations

import random
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scheduler_story import WELCOME, peer

from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import PeerId, task_id_source
from scaler_protocol.messages import Hello, Results, WorkerOffer
from scaler_protocol.session import Opened, Received
from scaler_protocol.session.gate import PEER_BYTES, SMALL_BYTES, TOTAL_BYTES, Pressure
from scaler_scheduler.core import Policy, SchedulerCore, Settled, invariants

MIB = 1 << 20
LARGEST = 64 * MIB
_sizes = st.sampled_from((1, 1_000, SMALL_BYTES, SMALL_BYTES + 1, MIB, 5 * MIB, PEER_BYTES, LARGEST))
_step = st.tuples(st.integers(0, 5), _sizes, st.integers(0, 3))


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(_step, min_size=1, max_size=80))
def test_no_peer_and_no_crowd_makes_it_keep_more(steps: list[tuple[int, int, int]]) -> None:
    """Each step a peer sends a message, which is taken or held back, and some of what waits is worked off."""
    pressure = Pressure()
    waiting: deque[tuple[PeerId, int]] = deque()
    held: dict[PeerId, int] = {}
    for number, size, done in steps:
        peer_id = PeerId(bytes([number + 1]) * 16)
        before, total = held.get(peer_id, 0), pressure.total
        if not pressure.is_strained or pressure.admits(peer_id, size):
            assert before <= PEER_BYTES
            assert total <= TOTAL_BYTES or (size <= SMALL_BYTES and not before)
            pressure.hold(peer_id, size)
            waiting.append((peer_id, size))
            held[peer_id] = before + size
        else:
            assert before > PEER_BYTES or total > TOTAL_BYTES, "held back for a reason"
        for _ in range(min(done, len(waiting))):
            other, dropped = waiting.popleft()
            pressure.drop(other, dropped)
            held[other] -= dropped
        held = {name: left for name, left in held.items() if left}
        pressure.check(held)
    for other, dropped in waiting:
        pressure.drop(other, dropped)
    pressure.check({})
    assert not pressure.is_strained and all(pressure.is_relieved(PeerId(bytes([n]) * 16)) for n in range(7))


def test_who_is_relieved_may_send_more_than_one_message() -> None:
    pressure, one = Pressure(), peer("w")
    pressure.hold(one, PEER_BYTES)
    assert pressure.admits(one, MIB)
    pressure.hold(one, MIB)
    assert not pressure.admits(one, 1) and not pressure.is_relieved(one)
    pressure.drop(one, MIB)
    assert not pressure.is_relieved(one)
    pressure.drop(one, PEER_BYTES - MIB)
    assert pressure.is_relieved(one)


def test_when_all_together_hold_too_much_what_is_small_is_taken_still() -> None:
    pressure = Pressure()
    for number in range(3):
        pressure.hold(PeerId(bytes([number + 1]) * 16), PEER_BYTES)
    assert pressure.admits(peer("c"), SMALL_BYTES) and not pressure.admits(peer("c"), SMALL_BYTES + 1)
    assert not pressure.admits(PeerId(bytes([1]) * 16), 1)
    pressure.drop(PeerId(bytes([1]) * 16), PEER_BYTES)
    assert pressure.admits(peer("c"), LARGEST)


def test_a_flood_of_results_is_worked_off_within_its_bound() -> None:
    """Workers that answer for tasks they do not hold: as fast as the gate takes it, and all of it in the end."""
    core, chance = SchedulerCore(Policy()), random.Random(1)
    for name in "vwx":
        hello = Hello(1, 1, ROLE_WORKER, peer(name), worker=WorkerOffer(name, (), 1))
        core.handle(Opened(peer(name), hello, WELCOME), 0.0)
    count = 5_000
    made = Results(b"".join(task_id_source()(count)), b"x" * count, join_u32([1] * count))
    size, taken, refused = len(made.ids) + len(made.payload) + len(made.sizes), 0, 0
    for _ in range(400):
        for name in "vwx":
            for _ in range(chance.randrange(30)):
                if core.gate.is_strained and not core.gate.admits(peer(name), size):
                    refused += 1
                    break
                core.handle(Received(peer(name), 1, made), 0.0)
                taken += 1
        core.handle(Settled(), 0.0)
        pressure = core.tables.backlog.pressure
        assert pressure.total <= 3 * (PEER_BYTES + MIB)
        assert core.is_busy_with(peer("v")) == bool(pressure._held.get(peer("v")))
    assert taken > 100 and refused > 100
    while core.tables.backlog:
        core.handle(Settled(), 0.0)
    invariants.check(core)
    assert not core.gate.is_strained
