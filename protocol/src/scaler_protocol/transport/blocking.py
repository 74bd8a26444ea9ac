"""A session driven by threads that may block, for every role that does not run on asyncio.

Theory of operation. A lock guards the endpoint and the handler, and the thread that holds it takes a *turn*: it hands
over what came in and what was posted, and sends what comes of it. One thread, the *host*, runs for the driver's whole
life. It sleeps without the lock, on the socket's descriptor and on one to wake it. Any other thread may take a turn as
a *guest*: then a post leaves at once, without a thread switch. If the lock is taken, a guest leaves its wish in the
inbox and wakes the host, which finds many wishes at once: that is the batching. A guest that waits for a lone answer
borrows the socket from the host, so the answer itself wakes it; if another thread's turn reads the answer first, that
thread does.

The descriptor is edge-triggered, so every turn drains until `settle` says that nothing is left.

The rule for interrupts. Guests are threads of the program, and an exception can come up in them between any two
bytecodes: Ctrl-C, another signal's handler, the cancel of a task. The host is our own thread, and no signal's handler
runs there. So:

* A turn that does not come to its end leaves a mark (`_bars`). No guest takes a turn after that; the host first calls
  `handler.recover()`, which replaces the session and begins again with everything that is unfinished.
* A wish stays in the inbox until it was handled. It may be handled twice: before and after the recovery.
* What cannot be repeated, such as waking the program's waiters, a guest leaves to the host.
* The lock is taken in one step of the interpreter with what releases it.

The rule for calls from within. A handler of a signal, and a destructor at any allocation, may call this client in the
middle of a turn of the same thread. The lock lets that thread in, but it takes no second turn (`is_below`): a wish goes
into the inbox, and leaves with the turn below. What would have to wait for an answer cannot wait here.

* A borrowed socket is lent for a bounded time. If its borrower is interrupted twice, the host takes the socket back.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from scaler_protocol import waits
from scaler_protocol.session import SessionEvent
from scaler_protocol.transport.dealer import DealerEndpoint
from scaler_protocol.transport.watch import Watch

LONE_WAIT_SECONDS = 0.2
"""The longest wait of a borrower: after a redial by another thread there is another socket."""

SHORTEST_WAIT_SECONDS = 0.005
"""Lower bound of that wait: a due deadline may only be servable by the host, and must not make the borrower spin."""

LATE_SECONDS = 1.0
"""So long after the end of its wait a borrower that has not come back counts as gone."""

ATTENTIVE_SECONDS = 0.001
"""So long after a turn with wishes the host looks into the inbox again by itself."""

_WITHOUT_WAITING = (False,)
_MOMENT_SECONDS = 0.1

_IN_TURN = 1  # a turn has begun, and has not come to its end
_STOPPING = 2


class Handler(Protocol):
    """All but `awake` is called with the driver's lock."""

    def receive(self, event: SessionEvent, now: float) -> None: ...

    def handle(self, wish: Any, now: float) -> None:
        """What was posted."""

    def finish_round(self, now: float) -> None:
        """All that came in and was posted is handled: send what came of it, and do what is due."""

    def recover(self, now: float) -> None:
        """A guest's turn was cut off. Replace the endpoint, and begin again with what is unfinished. By the host."""

    def host_turn(self, now: float) -> None:
        """Before each turn of the host: what guests have left to it."""

    def next_deadline(self) -> float | None: ...

    def awake(self, now: float) -> None:
        """The host has slept, and does not hold the lock."""


class BlockingDriver:
    def __init__(self, endpoint: DealerEndpoint, handler: Handler) -> None:
        #: the handler may put another one here, in a turn
        self.endpoint = endpoint
        self.lock = waits.RLock()
        #: wishes in order; each leaves when it was handled
        self.inbox: deque[Any] = deque()
        self.watch = Watch()
        #: the turn that is being taken is a guest's, and may be cut off anywhere
        self.is_guest = False
        self._handler = handler
        #: the host will look into the inbox within ATTENTIVE_SECONDS, without being woken
        self._is_attentive = False
        #: what keeps guests from a turn. While another thread has the lock, a turn that has begun never ends
        self._bars = 0

    def stop(self) -> None:
        """For the handler, in a turn: guests take no more turns, and `run` returns."""
        self._bars |= _STOPPING

    @property
    def is_stopping(self) -> bool:
        return bool(self._bars & _STOPPING)

    def is_below(self) -> bool:
        """Returns whether this thread has the lock already: a turn of its own stands below it on its stack."""
        return waits.is_mine(self.lock)

    # ------------------------------------------------------------ guests

    def post(self, wishes: tuple[Any, ...], is_urgent: bool) -> None:
        """What is urgent leaves with this thread, unless another one takes a turn: then with that one, or the host."""
        try:
            self.inbox.extend(wishes)
            if not (is_urgent and self.lead()) and (is_urgent or not self._is_attentive):
                self.watch.wake()
        except BaseException:
            self.watch.wake_surely()  # some of it may be in the inbox
            raise

    def lead(self) -> bool:
        """Take a turn, unless another thread does. True: everything that was posted has left, and the host sleeps on
        the right socket."""
        if waits.is_mine(self.lock):  # as `is_below`: every call comes here
            return False
        held: list[bool] = []
        try:
            # One step of the interpreter: no interrupt comes between taking the lock and knowing that it is taken.
            held.extend(map(self.lock.acquire, _WITHOUT_WAITING))
            if not held[0] or self._bars:
                return False
            self._turn(is_readable=False, is_guest=True)
            return not self.inbox and (self.watch.borrower is not None or self.watch.is_following(self.endpoint))
        finally:
            if held and held[0]:
                try:
                    if self._bars & _IN_TURN:
                        self.watch.wake_surely()  # cut off: the host begins again at once
                finally:
                    self.lock.release()  # no function of ours around it, whose first step could be interrupted

    def empty_inbox(self) -> None:
        """After the end: the handler refuses what was posted. Waits a moment for the lock and no longer, because it may
        be this thread that has it, and is in a destructor: then it looks again after it has let go."""
        while self.inbox:
            held: list[bool] = []
            try:
                held.extend(map(self.lock.acquire, (True,), (_MOMENT_SECONDS,)))
                if not held[0]:
                    return
                self.is_guest = False
                while self.inbox:
                    self._handler.handle(self.inbox[0], time.monotonic())
                    self.inbox.popleft()
            finally:
                if held and held[0]:
                    self.lock.release()

    def serve_until(self, is_over: Callable[[], bool], end_at: float, is_alone: Callable[[], bool]) -> None:
        """Wait at the socket in the host's place, while `is_alone()`. May return at any time: the caller goes on
        waiting in its own way."""
        if self.is_below():
            return
        lease = object(), threading.get_ident()
        watch = self.watch
        dialed: tuple[DealerEndpoint, int] | None = None
        try:
            with self.lock:
                endpoint = self.endpoint
                dialed = endpoint, endpoint.generation
                if watch.borrower is not None and watch.borrower[1] == lease[1]:
                    watch.take_back(endpoint)  # this thread sleeps below, and a signal's handler waits here
                wait = None if self.inbox or self._bars else watch.lend(endpoint, lease)
                seconds = self._lone_wait(end_at)
            while wait is not None and not is_over() and is_alone():
                watch.lent_until = time.monotonic() + seconds + LATE_SECONDS
                self.sleep(wait, seconds)
                with self.lock:
                    if watch.borrower is not lease or self._bars or time.monotonic() >= end_at:
                        return
                    self._turn(is_readable=True, is_guest=True, is_borrower=True)
                    if (self.endpoint, self.endpoint.generation) != dialed:
                        return  # there is another socket: dialing is the host's
                    if is_over():
                        return
                    seconds = self._lone_wait(end_at)
        finally:
            if watch.borrower is lease:
                try:
                    self._give_back(dialed)
                except BaseException:
                    watch.borrower = None
                    watch.wake_surely()  # the host takes the socket back by itself
                    raise

    @staticmethod
    def sleep(wait: Callable[[float], object], seconds: float) -> None:
        """An interrupt that can wait for its place comes up here: nothing is half done."""
        wait(seconds)

    def _give_back(self, dialed: tuple[DealerEndpoint, int] | None) -> None:
        with self.lock:
            if not self.is_stopping:
                self.watch.take_back(self.endpoint)
        if self._bars or (self.endpoint, self.endpoint.generation) != dialed:
            self.watch.wake()  # the host has other deadlines now than when it went to sleep

    def _lone_wait(self, end_at: float) -> float:
        due = self._seconds_until_due()
        seconds = LONE_WAIT_SECONDS if due is None else min(due, LONE_WAIT_SECONDS)
        return max(SHORTEST_WAIT_SECONDS, min(seconds, end_at - time.monotonic()))

    # ------------------------------------------------------------ the host

    def run(self) -> None:
        """Until the handler calls `stop`."""
        is_readable = True  # the first poll dials
        watch = self.watch
        while True:
            with self.lock:
                now = time.monotonic()
                if self._bars & _IN_TURN:
                    self._recover(now)
                self._handler.host_turn(now)
                self._is_attentive = self._turn(is_readable, is_guest=False)
                if self.is_stopping:
                    return
                if watch.is_lent and now > watch.lent_until:
                    watch.take_back(self.endpoint)
                seconds = self._seconds_until_due()
                if watch.is_lent:
                    seconds = min(LATE_SECONDS if seconds is None else seconds, LATE_SECONDS)
                watch.follow(self.endpoint)
            watch.sleep(self._sleep_seconds(seconds))
            is_readable = True
            self._handler.awake(time.monotonic())

    def _sleep_seconds(self, seconds: float | None) -> float | None:
        """How long the host sleeps, at most `seconds`. In a burst of posts it wakes by itself: a thread that wakes it
        may lose the interpreter to it, and then each post would leave as a message of its own."""
        if self._is_attentive:
            return ATTENTIVE_SECONDS if seconds is None else min(seconds, ATTENTIVE_SECONDS)
        return 0.0 if self.inbox else seconds  # what was posted while it was attentive did not wake it

    def _recover(self, now: float) -> None:
        self._handler.recover(now)
        self._bars &= ~_IN_TURN

    # ------------------------------------------------------------ a turn, with the lock

    def _turn(self, is_readable: bool, is_guest: bool, is_borrower: bool = False) -> bool:
        """True: there were wishes."""
        handler, inbox = self._handler, self.inbox
        has_read = has_handled = False
        self.is_guest = is_guest
        self._bars |= _IN_TURN
        while True:
            now = time.monotonic()
            endpoint = self.endpoint
            if is_readable:
                for event in endpoint.poll(now):
                    has_read = True
                    handler.receive(event, now)
                    if self.endpoint is not endpoint:
                        break  # what else it says belongs to a life that is over
            while inbox:
                handler.handle(inbox[0], now)
                inbox.popleft()
                has_handled = True
            handler.finish_round(now)
            is_readable = self.endpoint.settle(now) or self.endpoint is not endpoint
            if not is_readable and not inbox:
                break
        if has_read and not is_borrower:
            self.watch.nudge_borrower()
        self._bars &= ~_IN_TURN
        return has_handled

    def _seconds_until_due(self) -> float | None:
        due = math.inf
        for at in (self._handler.next_deadline(), self.endpoint.next_deadline()):
            if at is not None and at < due:
                due = at
        return None if due == math.inf else max(0.0, due - time.monotonic())
