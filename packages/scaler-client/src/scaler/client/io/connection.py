"""One session with a scheduler: the socket, the thread that watches it, and the way to the object storage.

Theory of operation. A lock guards core and endpoint, and whoever holds it is the leader: it hands to the core what was
posted and what came in, and sends what comes out. There is no hand-over between threads on the way out of an idle
client: the posting thread takes the lock and sends by itself. While something is on its way it only leaves its event
in the inbox and wakes the IO thread, which, because it has to wait for its turn at the interpreter, finds many at
once: that is the batching. A thread that is about to wait for a result sends what is left in the inbox itself, and when
its task is the only one, it waits at the socket in the IO thread's place.

The IO thread sleeps without the lock, on the socket's descriptor and on one to wake it. The descriptor is
edge-triggered, so every leader drains until `settle` says that nothing is left.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaler.client import errors
from scaler.client.core import actions, events
from scaler.client.core.core import ClientCore
from scaler.client.core.records import Outcomes, result_objects
from scaler.client.future import ScalerFuture
from scaler.client.futures.explaining import Questions
from scaler.client.io import forking
from scaler.client.io.background import Background
from scaler.client.io.watch import Watch
from scaler.client.objects.garbage import Garbage
from scaler.client.objects.storage import Storage
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import codes, task_context
from scaler_protocol.addresses import default_storage_address
from scaler_protocol.ids import ObjectId, PeerId, TaskId, new_peer_id, task_id_source
from scaler_protocol.messages import NO_TASK, Hello, Submit, Timers, Welcome
from scaler_protocol.session import Opened, Received, Rejected, SessionDialer
from scaler_protocol.session.handshake import why_no_scheduler
from scaler_protocol.software import this_software
from scaler_protocol.transport import DealerEndpoint

if TYPE_CHECKING:
    from scaler.client.submitting.deferred import Deferred

_log = logging.getLogger("scaler")

CLOSE_SECONDS = 5.0
"""How long closing waits for the IO thread, which has nothing left to wait for itself."""

PRINT_SECONDS = 1.0
"""How long a result waits for what its task has printed to be written."""

SHARED_IDLE_SECONDS = 5.0
"""How long a connection that tasks share outlives the last of them: the next task is often a moment away."""

LONE_WAIT_SECONDS = 0.2
"""How long a thread that waits in the IO thread's place waits at most: a redial by another gives us another socket."""

SHORTEST_WAIT_SECONDS = 0.005
"""And at least: what is due may be the IO thread's to do."""


class Connection:
    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        heartbeat_seconds: float,
        storage_address: str | None = None,
        parent_task: TaskId = NO_TASK,
    ) -> None:
        self.address = address
        #: who we are to the scheduler now; another one after a session was lost
        self.peer_id: PeerId = new_peer_id()
        self.identity = bytes(self.peer_id)
        self.callbacks = Background("scaler-callbacks")
        self.new_task_ids = task_id_source()
        self.welcome: Welcome | None = None
        self._timeout_seconds = timeout_seconds
        self._core = ClientCore(timeout_seconds=timeout_seconds)
        self._storage = Storage(self.peer_id, timeout_seconds, storage_address)
        self._hello = _hello(self.peer_id, timeout_seconds, heartbeat_seconds, parent_task)
        self._dialer = self._new_dialer()
        self._endpoint = DealerEndpoint(address, self._dialer)
        #: of sessions that are over: they say goodbye when what they own is ours under our new name
        self._retired: list[DealerEndpoint] = []
        self._may_retire = False
        self.lock = threading.Lock()
        self._inbox: deque[events.ProgramEvent] = deque()
        self.garbage = Garbage()
        #: calls that wait for futures among their arguments, or whose tasks have not ended since (CLI-14)
        self.deferred: dict[TaskId, Deferred] = {}
        self._settled = threading.Event()  # the first Welcome or Reject is here
        self._rejected: Rejected | None = None
        self._shutdown_answer: actions.AnswerShutdown | None = None
        self._shutdown_answered = threading.Event()
        #: asked to close; the IO thread will
        self._is_leaving = False
        #: nothing is sent or received any more
        self._is_closed = False
        #: something that a task has printed may not have been written yet
        self._is_printing = False
        #: the handles that share this connection, in the process of a worker; None: it belongs to one handle
        self._users: weakref.WeakSet[object] | None = None
        self._abandoned_at: float | None = None
        self.questions = Questions(self)
        self._watch = Watch()
        self._thread = threading.Thread(target=self._run, name="scaler-client", daemon=True)
        forking.note(self)

    def open(self) -> Connection:
        """Returns when the scheduler has welcomed us; raises what says why not."""
        self._thread.start()
        if not self._settled.wait(self._timeout_seconds):
            self.close()
            raise TimeoutError(
                f"no scheduler answered at {self.address} within {self._timeout_seconds:g} s: check that it is "
                "running, that this is its address, and that no firewall is in between"
            )
        if self._rejected is not None or self.welcome is None:
            self.close()
            rejected = self._rejected or Rejected(codes.OK, "the client could not be started")
            raise errors.rejection(rejected.code, rejected.text)
        return self

    # ------------------------------------------------------------ for any thread

    @property
    def is_closed(self) -> bool:
        return self._is_leaving or self._is_closed

    @property
    def inline_bytes(self) -> int:
        assert self.welcome is not None, "a connection is given out when it is open"
        return self.welcome.limits.inline_bytes

    def standing(self) -> tuple[bool, int]:
        """Whether the scheduler is there, and how many tasks have not ended: as of now, without the lock."""
        return self._core.is_open, self._core.pending_count

    @property
    def storage(self) -> Storage:
        return self._storage

    def post(self, *posted: events.ProgramEvent, is_batch: bool = False) -> None:
        """Hand the core events. What is a batch already, or finds an idle client, is sent by this thread at once."""
        is_urgent = is_batch or self._core.is_idle
        self._inbox.extend(posted)
        if not (is_urgent and self._lead()):
            self._watch.wake()

    def hasten(self) -> None:
        """This thread is going to wait: what it has posted shall not."""
        if self._inbox:
            self._lead()

    def serve_until(self, is_over: Callable[[], bool], timeout: float | None) -> None:
        """Wait at the socket, if what this thread waits for is the only task there is. May return at any time: the
        caller goes on waiting in its own way. Not inside a task, which may be interrupted anywhere."""
        if self._core.pending_count != 1 or task_context.current() is not None:
            return
        with self.lock:
            endpoint, generation = self._endpoint, self._endpoint.generation
            wait = None if self.is_closed or self._inbox else self._watch.lend(endpoint)
        if wait is None:
            return
        end_at = math.inf if timeout is None else time.monotonic() + timeout
        try:
            while self._core.pending_count == 1 and not is_over():
                due_seconds = self._until_next_deadline()
                seconds = LONE_WAIT_SECONDS if due_seconds is None else min(due_seconds, LONE_WAIT_SECONDS)
                wait(max(SHORTEST_WAIT_SECONDS, min(seconds, end_at - time.monotonic())))
                with self.lock:
                    if self.is_closed or time.monotonic() >= end_at:
                        return
                    self._drive(is_readable=True)
                    if self._endpoint is not endpoint or endpoint.generation != generation:
                        return  # there is another socket: dialing is the IO thread's
        finally:
            with self.lock:
                if not self._is_closed:
                    self._watch.take_back(self._endpoint)
            if self._endpoint is not endpoint or endpoint.generation != generation or self._is_leaving:
                self._watch.wake()  # it has other deadlines now than when it went to sleep

    def cancel(self, ids: Iterable[TaskId]) -> None:
        """End these tasks, wherever they are. The Cancel leaves when no others follow; the answer is not waited for."""
        unfinished = tuple(ids)
        if self.deferred:
            for deferred in [self.deferred[task_id] for task_id in unfinished if task_id in self.deferred]:
                deferred.cancel()
        if unfinished:
            self.post(events.CancelRequested(unfinished), is_batch=True)
            self._watch.wake()  # the IO thread sends them, earlier than it meant to wake

    def clear(self, owner: object) -> None:
        """End every unfinished task of this owner. Does not wait for the answers."""
        for deferred in tuple(self.deferred.values()):
            if deferred.owner is owner:
                deferred.cancel()
        self.post(events.Cleared(owner), is_batch=True)

    def pending_collectors(self, owner: object) -> list[Any]:
        """Who waits for unfinished tasks of this owner."""
        deferred = [one.collector for one in tuple(self.deferred.values()) if one.owner is owner]
        with self.lock:
            self._drive(is_readable=False)
            return deferred + self._core.collectors_of(owner)

    def decode_one(self, outcomes: Outcomes, deserialize: Callable[[Any], Any], *, keeps_object: bool = False) -> Any:
        """The value of a task that ended alone, fetched if need be, or its exception raised. Runs user code."""
        if outcomes.statuses and outcomes.statuses[0] != codes.STATUS_SUCCESS:
            raise errors.exception_of(errors.task_error_of(outcomes))
        if outcomes.kinds and outcomes.kinds[0] == codes.KIND_OBJECT:
            object_id = ObjectId(bytes(outcomes.payload))
            data = self._storage.get(object_id)
            if not keeps_object:
                self.garbage.forget((object_id,))
                self.post(events.Unneeded((object_id,)), is_batch=True)
            return deserialize(data)
        return deserialize(outcomes.payload)

    def shut_down_cluster(self) -> actions.AnswerShutdown:
        """Ask the scheduler to stop everything, and wait for its word."""
        self._shutdown_answered.clear()
        self.post(events.ShutdownRequested(), is_batch=True)
        if not self._shutdown_answered.wait(self._timeout_seconds) or self._shutdown_answer is None:
            raise DisconnectedError(
                f"the scheduler at {self.address} did not answer within {self._timeout_seconds:g} s"
            )
        return self._shutdown_answer

    def share_with(self, user: object) -> bool:
        """Stay open at least as long as this object lives. False: it is too late, open another."""
        with self.lock:
            if self.is_closed:
                return False
            self._users = weakref.WeakSet() if self._users is None else self._users
            self._users.add(user)
            self._abandoned_at = None
            return True

    def close(self) -> None:
        """Say goodbye and end. What is pending ends canceled: the scheduler stops it when it hears the goodbye."""
        self.close_later()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def close_later(self) -> None:
        """As `close`, without waiting. Safe in a destructor, wherever it runs: takes no lock."""
        self._is_leaving = True
        self._watch.wake_surely()

    def abandon(self) -> None:
        """In a forked child: what is pending ends, here and not for the parent, and nothing is sent to anybody."""
        posted = [one.collector for event in self._inbox for one in events.submissions_of(event)]
        deferred = [one.collector for one in self.deferred.values()]
        for collector in (*self._core.collectors_of(None), *posted, *deferred):
            if isinstance(collector, ScalerFuture):
                collector.abandon()
        self._core = ClientCore(timeout_seconds=self._timeout_seconds)
        self._inbox.clear()
        self.deferred.clear()
        self._is_leaving = self._is_closed = True

    # ------------------------------------------------------------ leading

    def _lead(self) -> bool:
        """Do what is posted, in this thread, unless somebody else leads: then tell them. True: all of it is done."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            self._drive(is_readable=False)
            is_same_socket = self._watch.is_lent or self._watch.is_following(self._endpoint)
        finally:
            self.lock.release()
        return not self._inbox and is_same_socket

    def _drive(self, is_readable: bool) -> None:
        """With the lock: everything posted into the core, everything that comes out of it on its way."""
        core, inbox = self._core, self._inbox
        if self._is_closed:
            self._refuse()
            return
        while True:
            now = time.monotonic()
            endpoint = self._endpoint
            if is_readable:
                self._receive(endpoint, now)
            if self.garbage:
                inbox.append(events.Unneeded(self.garbage.collect()))
            while inbox:
                self._perform(core.handle(inbox.popleft(), now))
            if core.has_queued:
                self._perform(core.handle(events.Flush(*endpoint.unacknowledged), now))
            deadline = core.next_deadline()
            if deadline is not None and deadline <= now:
                self._perform(core.handle(events.TICKED, now))
            is_readable = self._endpoint.settle(now) or self._endpoint is not endpoint
            if not is_readable and not inbox:
                break

    def _receive(self, endpoint: DealerEndpoint, now: float) -> None:
        for received in endpoint.poll(now):
            self._note(received)
            self._perform(self._core.handle(received, now))
            if self._endpoint is not endpoint:
                return  # what else it says belongs to a life that is over

    def _refuse(self, text: str = "") -> None:
        """What was posted while the connection closed ends at once."""
        core = self._core
        for event in (*self._inbox, events.Left(text)):
            self._perform([action for action in core.handle(event, 0.0) if type(action) is actions.Complete])
        self._inbox.clear()

    def _perform(self, todo: list[actions.Action]) -> None:
        for action in todo:
            _PERFORM[type(action)](self, action)

    def _note(self, event: Any) -> None:
        """Session events that concern the shell besides the core."""
        if type(event) is Received:
            return
        if type(event) is Opened and (why := why_no_scheduler(event.welcome, self.address)):
            self._rejected = Rejected(codes.BAD_ROLE, why)
            self._settled.set()
        elif type(event) is Opened:
            self.welcome = event.welcome
            self._storage.use(event.welcome.storage_address or default_storage_address(self.address))  # HSK-18
            self._storage.take_over(then=self._retire_later)
            self._settled.set()
        elif type(event) is Rejected:
            self._rejected = event
            self._settled.set()

    def _do_send(self, action: actions.Send) -> None:
        message = action.message
        self._endpoint.send(message)
        if type(message) is Submit:
            self._core.handle(events.Numbered(self._dialer.sent_seq, message.ids), 0.0)

    def _do_complete(self, action: actions.Complete) -> None:
        if action.outcomes.kinds:
            self._storage.hold(result_objects(action.outcomes))
        action.collector.complete(action.outcomes)

    def _do_release(self, action: actions.Release) -> None:
        self._storage.release(action.ids)

    def _do_redial(self, action: actions.Redial) -> None:
        """Begin again as somebody else, who takes over what is stored. Only then the old one may leave. (CLI-8)"""
        self._retired.append(self._endpoint)
        self.peer_id = new_peer_id()
        self._hello = replace(self._hello, peer_id=self.peer_id)
        self._dialer = self._new_dialer()
        self._endpoint = DealerEndpoint(self.address, self._dialer)
        self._storage.rename(self.peer_id)

    def _new_dialer(self) -> SessionDialer:
        return SessionDialer(hello=self._hello, server_name=f"scheduler at {self.address}", is_paced=True)

    def _retire_later(self) -> None:
        self._may_retire = True
        self._watch.wake()

    def _retire(self) -> None:
        self._may_retire = False
        retired, self._retired = self._retired, []
        for endpoint in retired:
            endpoint.close()

    def _do_print(self, action: actions.Print) -> None:
        # Writing to a terminal or pipe may block: not here.
        stream = sys.stderr if action.stream == 2 else sys.stdout
        self._is_printing = True
        self.callbacks.run(lambda: print(action.text, end="", file=stream, flush=True))

    def wait_for_prints(self) -> None:
        """What a task has printed is seen before its result, unless whoever reads it is stuck."""
        if self._is_printing and not self.callbacks.is_this_thread:
            self._is_printing = False
            self.callbacks.wait(PRINT_SECONDS)

    def _do_answer_shutdown(self, action: actions.AnswerShutdown) -> None:
        self._shutdown_answer = action
        self._shutdown_answered.set()

    def _do_explained(self, action: actions.Explained) -> None:
        self.questions.answered(action)

    # ------------------------------------------------------------ the IO thread

    def _run(self) -> None:
        try:
            is_readable = True  # the first poll dials
            while True:
                with self.lock:
                    if self._is_leaving:
                        self._leave()
                        break
                    if self._may_retire:
                        self._retire()
                    self._drive(is_readable)
                    if self._is_abandoned():
                        continue
                    seconds = self._until_next_deadline()
                    self._watch.follow(self._endpoint)
                self._watch.sleep(seconds)
                is_readable = True
                self.questions.look(time.monotonic(), is_busy=not self._core.is_idle)
        except Exception as error:  # noqa: BLE001 whatever it is, nobody may wait for ever
            _log.exception("the client's IO thread failed; its pending tasks are given up")
            self._end(f"the client's IO thread failed: {error!r}")
        else:
            self._end("")

    def _is_abandoned(self) -> bool:
        """Leave when all who shared this connection are gone for a while. Heartbeats bring us here often enough."""
        if self._users is None or self._users or not self._core.is_idle:
            self._abandoned_at = None
            return False
        now = time.monotonic()
        if self._abandoned_at is None:
            self._abandoned_at = now
        if now - self._abandoned_at >= SHARED_IDLE_SECONDS:
            self._is_leaving = True
        return self._is_leaving

    def _until_next_deadline(self) -> float | None:
        due = math.inf
        for at in (self._core.next_deadline(), self._endpoint.next_deadline(), self.questions.look_at):
            if at is not None and at < due:
                due = at
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def _leave(self) -> None:
        self._inbox.append(events.Left())
        self._drive(is_readable=False)
        self._endpoint.bye()
        self._endpoint.settle(time.monotonic())

    def _end(self, text: str) -> None:
        with self.lock:
            self._is_closed = True
            self._refuse(text)
            self._retire()
            self._endpoint.close()
            self._watch.close()
            self._shutdown_answered.set()
            self._settled.set()
        for deferred in tuple(self.deferred.values()):
            deferred.cancel()
        # Last, and without the lock: another thread may be in the middle of a large put.
        self._storage.close()


_PERFORM: dict[type, Callable[[Connection, Any], None]] = {
    actions.Send: Connection._do_send,
    actions.Complete: Connection._do_complete,
    actions.Release: Connection._do_release,
    actions.Redial: Connection._do_redial,
    actions.Print: Connection._do_print,
    actions.AnswerShutdown: Connection._do_answer_shutdown,
    actions.Explained: Connection._do_explained,
}


def _hello(peer_id: PeerId, timeout_seconds: float, heartbeat_seconds: float, parent_task: TaskId) -> Hello:
    return Hello(
        version_min=codes.PROTOCOL_VERSION_MIN,
        version_max=codes.PROTOCOL_VERSION_MAX,
        role=codes.ROLE_CLIENT,
        peer_id=peer_id,
        # A lease has room for three heartbeats: slower ones would make it longer than the program wants to wait.
        timers=Timers(heartbeat_seconds=min(heartbeat_seconds, timeout_seconds / 3), lease_seconds=timeout_seconds),
        software=this_software("scaler-client"),
        parent_task=parent_task,
    )
