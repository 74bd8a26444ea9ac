"""The blocking driver with a played endpoint: turns, lending, and the rule for interrupts."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.support.interrupts import Cut, interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler_protocol.transport import Conversation, blocking
from scaler_protocol.transport.blocking import BlockingDriver


class Endpoint:
    """What arrives is sent to its socket, byte by byte; each is an event."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self.generation = 0
        self.sent: list[object] = []
        self.has_more = False
        #: events that are there though the descriptor does not tell, because another turn has drained it
        self.untold: list[int] = []

    def fileno(self) -> int:
        return self._ours.fileno()

    def poll(self, now: float) -> list[int]:
        if self.untold:
            untold, self.untold = self.untold, []
            return untold
        try:
            return list(self._ours.recv(100))
        except BlockingIOError:
            return []

    def settle(self, now: float, is_eager: bool = False) -> bool:
        return self.has_more or bool(self.untold)

    def next_deadline(self) -> float | None:
        return None

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()


class Play:
    """A handler: a wish is kept until it has been answered, and asked again in a new session."""

    def __init__(self) -> None:
        self.endpoint = Endpoint()
        self.driver = BlockingDriver(cast(Any, self.endpoint), self)
        self.unanswered: dict[int, None] = {}
        self.answered: list[int] = []
        self.recover_count = 0
        #: what was called while no thread had the lock: the handler's tables are whole only with it
        self.unlocked: list[str] = []
        self.thread = threading.Thread(target=self.driver.run, daemon=True)

    def receive(self, event: Any, now: float) -> None:
        self.note_lock("receive")
        self.answered.append(event)
        self.unanswered.pop(event, None)

    def handle(self, wish: Any, now: float) -> None:
        self.note_lock("handle")
        if wish is None:
            self.driver.stop()
            return
        self.unanswered[wish] = None
        self.endpoint.sent.append(wish)

    def finish_round(self, now: float) -> None:
        self.note_lock("finish_round")

    def recover(self, now: float) -> None:
        self.note_lock("recover")
        self.recover_count += 1
        self.endpoint.close()
        self.endpoint = Endpoint()
        self.driver.endpoint = cast(Any, self.endpoint)
        self.endpoint.sent += self.unanswered

    def host_turn(self, now: float) -> None:
        self.note_lock("host_turn")

    def next_deadline(self) -> float | None:
        self.note_lock("next_deadline")
        return None

    def awake(self, now: float) -> None:
        pass

    def note_lock(self, name: str) -> None:
        if not self.driver.lock._is_owned():  # type: ignore[attr-defined] # by the thread that calls
            self.unlocked.append(name)

    def end(self) -> None:
        self.driver.post((None,), is_urgent=False)
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        self.driver.watch.close()
        self.endpoint.close()
        assert self.unlocked == []


@pytest.fixture
def play() -> Iterator[Play]:
    play = Play()
    play.thread.start()
    eventually(lambda: play.driver.watch.is_following(play.driver.endpoint), "the host watches the socket")
    yield play
    play.end()


def test_what_is_urgent_leaves_with_the_thread_that_posts_it(play: Play) -> None:
    play.driver.post((1,), is_urgent=True)
    assert play.endpoint.sent == [1]


def test_what_is_not_is_left_to_the_host(play: Play) -> None:
    with play.driver.lock:
        play.driver.post((1,), is_urgent=True)
        assert play.endpoint.sent == [] and not play.driver.lead()
    eventually(lambda: play.endpoint.sent == [1], "the host has sent it")


def test_in_a_burst_no_post_wakes_the_host(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends what has come by then when it wakes by itself, or for the socket."""
    wakes: list[int] = []
    wake = play.driver.watch.wake
    monkeypatch.setattr(play.driver.watch, "wake", lambda: (wakes.append(1), wake()))
    monkeypatch.setattr(blocking, "ATTENTIVE_SECONDS", 10 * WAIT)
    play.driver.post((1,), is_urgent=False)
    eventually(lambda: play.driver._is_attentive, "the host has sent it, and stays attentive")
    play.driver.post((2,), is_urgent=False)
    play.driver.post((3,), is_urgent=False)
    assert (play.endpoint.sent, wakes) == ([1], [1])
    monkeypatch.setattr(blocking, "ATTENTIVE_SECONDS", 0.001)
    play.endpoint.theirs.send(b"\x01")
    eventually(lambda: play.endpoint.sent == [1, 2, 3], "both leave in the turn that the answer begins")
    eventually(lambda: not play.driver._is_attentive, "the burst is over")
    play.driver.post((4,), is_urgent=False)
    eventually(lambda: play.endpoint.sent == [1, 2, 3, 4], "the host has been woken again")
    assert wakes == [1, 1]


def test_what_is_posted_in_a_burst_is_not_forgotten(play: Play) -> None:
    for wish in range(1, 200):
        play.driver.post((wish,), is_urgent=False)
    eventually(lambda: play.endpoint.sent == list(range(1, 200)), "the host sends all, and no post comes after them")


def test_a_guest_gets_its_answer_at_the_socket(play: Play) -> None:
    play.driver.post((1,), is_urgent=True)
    waiting = threading.Thread(
        target=play.driver.serve_until, args=(lambda: bool(play.answered), math.inf, lambda: True)
    )
    waiting.start()
    eventually(lambda: play.driver.watch.is_lent, "the socket is lent")
    play.endpoint.theirs.send(b"\x01")
    waiting.join(WAIT)
    assert play.answered == [1] and not play.driver.watch.is_lent
    assert play.driver.watch.is_following(play.driver.endpoint)


def test_a_guest_is_woken_by_the_thread_that_reads_its_answer(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "LONE_WAIT_SECONDS", 10 * WAIT)
    play.driver.post((1,), is_urgent=True)
    waiting = threading.Thread(
        target=play.driver.serve_until, args=(lambda: bool(play.answered), math.inf, lambda: True)
    )
    waiting.start()
    eventually(lambda: play.driver.watch.is_lent, "the socket is lent")
    play.endpoint.untold.append(1)
    play.driver.post((2,), is_urgent=True)
    waiting.join(WAIT)
    assert not waiting.is_alive() and play.answered == [1]
    assert play.driver.watch.is_following(play.driver.endpoint)


def test_a_wait_at_the_socket_is_bounded(play: Play) -> None:
    begun_at = time.monotonic()
    play.driver.serve_until(lambda: False, begun_at + 0.05, lambda: True)
    assert 0.04 < time.monotonic() - begun_at < WAIT and not play.driver.watch.is_lent


def test_a_socket_that_is_not_given_back_is_taken_back(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "LATE_SECONDS", 0.05)
    with play.driver.lock:
        assert play.driver.watch.lend(play.driver.endpoint, object()) is not None
    play.driver.watch.wake()
    play.endpoint.theirs.send(b"\x07")
    eventually(lambda: play.answered == [7], "the host serves the socket again")


def test_an_interrupt_at_any_place_leaves_everything_in_order(play: Play) -> None:
    """The wish is sent, by whichever session, or it was never taken; the lock is free, and nothing stays lent."""
    with interrupted_at(None) as counted:
        ask(play, 0)
    assert counted.count > 30
    cut_count = 0
    for place in range(1, counted.count + 1):
        wish = 1 + place % 250
        was_recovered = play.recover_count
        try:
            with interrupted_at(place):
                ask(play, wish)
        except Cut:
            cut_count += 1
        play.driver.post((251,), is_urgent=True)
        eventually(lambda: 251 in play.unanswered and not play.driver.inbox, f"a later wish is taken, at {place}")
        assert play.recover_count <= was_recovered + 1
        with play.driver.lock:
            assert play.endpoint.sent[-1] == 251 or 251 in play.endpoint.sent
            play.unanswered.clear()
            play.answered.clear()
        eventually(lambda: not play.driver.watch.is_lent, f"nothing stays lent, at {place}")
    assert cut_count > counted.count / 2 and play.recover_count > 0


def ask(play: Play, wish: int) -> None:
    play.driver.post((wish,), is_urgent=True)
    play.endpoint.theirs.send(bytes((wish,)))
    play.driver.serve_until(lambda: wish in play.answered, time.monotonic() + 1.0, lambda: True)


def test_a_conversation_polls_again_before_it_waits() -> None:
    endpoint = Endpoint()
    talk = Conversation(cast(Any, endpoint))
    endpoint.has_more = True
    talk.settle(0.0)
    talk.wait(WAIT)  # returns at once
    endpoint.has_more = False
    talk.settle(0.0)
    endpoint.theirs.send(b"\x01")
    talk.wait(WAIT)
    assert cast(Any, talk.poll(0.0)) == [1]
    begun_at = time.monotonic()
    talk.wait(0.02)
    assert 0.01 < time.monotonic() - begun_at < WAIT / 2
    talk.close()
