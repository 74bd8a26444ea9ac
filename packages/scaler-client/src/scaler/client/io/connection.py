"""One session with a scheduler, and the way to the object storage: the handler of a driver (`transport.blocking`).

Theory of operation. The IO thread hosts the driver; every thread of the program may take a turn as its guest. An idle
client's call leaves in the thread that makes it. While something is on its way, a call only goes into the inbox and
wakes the IO thread, which, because it has to wait for its turn at the interpreter, finds many at once: that is the
batching. A thread that is about to wait for a result sends what is left in the inbox itself, and if its task is the
only one, it waits at the socket in the IO thread's place.

A guest can be interrupted anywhere. Then the session and the core are replaced, and the new core inherits every task
whose end was not told (`recover`). If no thread waits for a task yet, a guest tells its end at once. All other
ends are kept in `_ends` for the IO thread, because what wakes the program's waiters cannot be repeated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scaler.client import errors
from scaler.client.core import actions, events
from scaler.client.core.core import ClientCore
from scaler.client.core.records import Entry, LargeError, Outcomes, stored_results
from scaler.client.future import ScalerFuture
from scaler.client.futures.condition import holding, is_inspecting
from scaler.client.futures.explaining import Questions
from scaler.client.io import forking
from scaler.client.io.background import Background
from scaler.client.io.deferrals import Deferrals
from scaler.client.io.ends import TELL_SECONDS, Ends
from scaler.client.io.hello import dialer_of, hello_of, name_present_task, renewed
from scaler.client.io.life import Life, Move, after
from scaler.client.io.printing import Preparations, Printing
from scaler.client.io.users import Users
from scaler.client.objects.garbage import Drops, Garbage
from scaler.client.objects.remaking import Remaking
from scaler.client.objects.storage import Storage
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import codes, task_context, waits
from scaler_protocol.addresses import default_storage_address
from scaler_protocol.ids import ObjectId, PeerId, TaskId, new_peer_id, new_salt, task_id_source
from scaler_protocol.keys import Pass
from scaler_protocol.messages import NO_TASK, Buffer, Submit, Welcome
from scaler_protocol.session import Opened, Received, Rejected, SessionEvent
from scaler_protocol.session.handshake import remembering, why_no_scheduler
from scaler_protocol.transport import BlockingDriver, DealerEndpoint
from scaler_protocol.waits import Event

_log = logging.getLogger("scaler")

CLOSE_SECONDS = 5.0
"""How long closing waits for the IO thread, which has nothing left to wait for itself."""

_OPEN, _OPENING, _CLOSED = Life.OPEN, Life.OPENING, Life.CLOSED  # looked up once


class Connection:
    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        heartbeat_seconds: float,
        storage_address: str | None = None,
        parent_task: TaskId = NO_TASK,
        shown: Pass | None = None,
        trusts_results: bool = True,
        weight: float = 1.0,
    ) -> None:
        self.address = address
        self.trusts_results = trusts_results
        #: who we are to the scheduler now; another one after a session was lost
        self.peer_id: PeerId = new_peer_id()
        self.identity = bytes(self.peer_id)
        self.callbacks = Background("scaler-callbacks")
        self.new_task_ids = task_id_source()
        #: in the headers of all tasks, under each name of ours (OWN-14)
        self.result_salt = new_salt()
        self.welcome: Welcome | None = None
        self.timeout_seconds = timeout_seconds
        self._core = ClientCore(timeout_seconds=timeout_seconds)
        self.garbage = Garbage()
        self.drops = Drops()
        self._storage = Storage(self.peer_id, timeout_seconds, storage_address, self.garbage, shown)
        self._storage.on_lost = self._note_lost
        self._storage.on_restarted = self._note_restarted
        self._storage.names.on_wanted = lambda: self.post(events.Sought(), is_batch=True)
        self._remaking = Remaking(self)
        self._hello = hello_of(self.peer_id, timeout_seconds, heartbeat_seconds, parent_task, weight)
        self._dialer = dialer_of(self._hello, self.address)
        self.driver = BlockingDriver(DealerEndpoint(address, self._dialer, shown), self)
        self.lock = self.driver.lock  #: guards all that turns touch; held while this process forks
        self._locks = self.lock, *self._storage.locks  #: that the IO thread may have to take before it tells an end
        self._ends = Ends()  #: of tasks, which guests have left to the IO thread
        #: of sessions that are over: they say goodbye when what they own is ours under our new name
        self._retired: list[DealerEndpoint] = []
        #: the last name of ours that has taken over all that the ones before owned
        self._owning: PeerId | None = None
        self.streams: dict[TaskId, Any] = {}  #: weak references to those that have not ended, or are dead
        self.deferred = Deferrals()
        self._settled = Event()  # the first Welcome or Reject is here
        self._rejected: Rejected | None = None
        self._shutdown_answer: actions.AnswerShutdown | None = None
        self._shutdown_answered = Event()
        self._life = Life.OPENING  #: see life.py
        #: why the IO thread has failed, if it has
        self._failure = ""
        self._users = Users()
        self.preparations: Preparations = Preparations(self.callbacks)
        self.questions = Questions(self)
        self._printing: Printing = Printing(self.callbacks)
        self.wait_for_prints = self._printing.wait
        self._thread = threading.Thread(target=self._run, name="scaler-client", daemon=True)
        forking.note(self)

    def open(self) -> Connection:
        """Returns when the scheduler has welcomed us; raises what says why not."""
        try:
            self._thread.start()
            has_settled = self._settled.wait(self.timeout_seconds)
        except BaseException:
            self.close_later()  # or it would go on dialing, as a client that no program holds
            raise
        if self._life is _OPEN:
            return self
        self.close()
        if not has_settled and (reason := self.driver.endpoint.waits_because):
            raise errors.rejection(codes.OVERLOADED, f"{reason} (tried for {self.timeout_seconds:g} s)")
        if not has_settled:
            raise TimeoutError(
                f"no scheduler answered at {self.address} within {self.timeout_seconds:g} s: check that it is "
                "running, that this is its address, and that no firewall is in between"
            )
        rejected = self._rejected or Rejected(codes.OK, self._failure or "the client could not be started")
        raise errors.rejection(rejected.code, rejected.text)

    # ------------------------------------------------------------ for any thread

    @property
    def is_closed(self) -> bool:
        return self._life is not _OPEN and self._life is not _OPENING

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
        if self._life is not _CLOSED:
            self.driver.post(posted, is_batch or self._core.is_idle)
        else:
            self.driver.inbox.extend(posted)
        if self._life is _CLOSED:
            self.driver.empty_inbox()

    def hasten(self) -> None:
        """This thread is going to wait: what it has posted shall not. RuntimeError if it would wait for itself."""
        is_own_thread = threading.get_ident() == self._thread.ident
        if is_own_thread or any(map(waits.is_mine, (*self._locks, holding()))) or is_inspecting():
            raise errors.waits_for_itself()
        if self.driver.inbox:
            self.driver.lead()

    def serve_until(self, is_over: Callable[[], bool], end_at: float) -> None:
        """Wait at the socket, if what this thread waits for is the only task there is. May return at any time: the
        caller goes on waiting in its own way. Not inside a task, where every wait has to lend the task's place."""
        if self._core.pending_count == 1 and task_context.current() is None:
            self.driver.serve_until(is_over, end_at, self._is_alone)

    def _is_alone(self) -> bool:
        return self._core.pending_count == 1

    def cancel(self, ids: Iterable[TaskId]) -> None:
        """End these tasks, wherever they are. The Cancel leaves when no others follow; the answer is not waited for."""
        unfinished = tuple(ids)
        is_ending = self.deferred.cancel(unfinished)
        if unfinished:
            self.post(events.CancelRequested(unfinished), is_batch=True)
            self.driver.watch.wake()  # the IO thread sends them, earlier than it meant to wake
        if is_ending:
            self.wait_until_told()

    def clear(self, owner: object) -> None:
        """End every unfinished task of this owner. Does not wait for the answers."""
        is_ending = self.deferred.cancel(self.deferred.of(owner))
        self.post(events.Cleared(owner), is_batch=True)
        if is_ending:
            self.wait_until_told()

    def pending_collectors(self, owner: object) -> list[Any]:
        """Who waits for unfinished tasks of this owner."""
        deferred = self.deferred.collectors_of(owner)
        with self.lock:
            posted = [one for wish in self.driver.inbox for one in events.submissions_of(wish)]
            found = deferred + self._ends.collectors() + self._core.collectors_of(owner)
            return found + [one.collector for one in posted if one.owner is owner]

    def fetch_one(self, outcomes: Outcomes, end_at: float) -> Buffer:
        """Returns the bytes of a task's value; what the storage has lost is made again. NotInTime at `end_at`."""
        if outcomes.kinds and outcomes.kinds[0] == codes.KIND_OBJECT:
            return self._remaking.fetch(ObjectId(bytes(outcomes.payload)), end_at)
        return outcomes.payload

    def unneeded(self, objects: tuple[ObjectId, ...]) -> None:
        """The program has read these results."""
        self.post(events.Unneeded(objects), is_batch=True)
        self.garbage.forget(objects)  # last: an interrupt before this releases them once more, which does no harm

    def shut_down_cluster(self) -> actions.AnswerShutdown:
        """Ask the scheduler to stop everything, and wait for its word."""
        self.hasten()
        self._shutdown_answered.clear()
        self.post(events.ShutdownRequested(), is_batch=True)
        if not self._shutdown_answered.wait(self.timeout_seconds) or self._shutdown_answer is None:
            raise DisconnectedError(f"the scheduler at {self.address} did not answer within {self.timeout_seconds:g} s")
        return self._shutdown_answer

    def share_with(self, user: object) -> bool:
        """Stay open at least as long as this object lives. False: it is too late, open another."""
        with self.lock:
            if self.is_closed:
                return False
            self._users.add(user)
            return True

    def close(self) -> None:
        """Says goodbye and ends. What is pending ends canceled: the scheduler stops it when it hears the goodbye. Then
        callbacks of what has ended have been called, as after the shutdown of an executor, unless one does not end."""
        self.close_later()
        if self._thread is threading.current_thread() or self.driver.is_below():
            return
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)
        self.callbacks.finish()

    def close_later(self) -> None:
        """As `close`, without waiting. Safe in a destructor, wherever it runs: takes no lock."""
        self.driver.inbox.append(events.Left())
        self.driver.watch.wake_surely()

    def abandon(self) -> None:
        """In a forked child: what is pending ends here and not in the parent. Nothing is sent."""
        self._life = after(self._life, Move.FORK)
        self.driver.stop()
        posted = [one.collector for event in self.driver.inbox for one in events.submissions_of(event)]
        deferred = [one.collector for one in tuple(self.deferred.values())]
        ending = self._ends.collectors()
        for collector in (*self._core.collectors_of(None), *posted, *deferred, *ending):
            if isinstance(collector, ScalerFuture):
                collector.abandon()
        self._core = ClientCore(timeout_seconds=self.timeout_seconds)
        self._ends.clear()
        self.driver.inbox.clear()
        self.deferred.clear()

    # ------------------------------------------------------------ the driver's handler, with the lock

    def receive(self, event: SessionEvent, now: float) -> None:
        if type(event) is not Received:
            self._note(event)
        self._perform(self._core.handle(event, now))

    def handle(self, wish: events.ProgramEvent, now: float) -> None:
        if self._life is not _OPEN and self._life is not _OPENING:
            self._refuse(wish)
            return
        todo = self._core.handle(wish, now)
        if todo:
            self._perform(todo)
        if type(wish) is events.Left:
            self._life = after(self._life, Move.LEAVE)
            self.driver.stop()

    def finish_round(self, now: float) -> None:
        core = self._core
        if self.garbage:
            self._perform(core.handle(events.Unneeded(self.garbage.collect()), now))
            self.garbage.released()
        if core.has_queued:
            self._perform(core.handle(events.Flush(*self.driver.endpoint.unacknowledged), now))
        deadline = core.next_deadline()
        if deadline is not None and deadline <= now:
            self._perform(core.handle(events.Ticked(self.driver.endpoint.waits_because), now))

    def host_turn(self, now: float) -> None:
        self._ends.tell()
        self.drops.run()
        if not self._dialer.is_open:
            name_present_task(self._dialer)
        if self._retired and self._owning == self.peer_id:  # else what the last of them owned is not ours yet
            self._retire()
        if self._users.have_left(self._core.is_idle, now):  # heartbeats bring us here often enough
            self.driver.inbox.append(events.Left())

    def recover(self, now: float) -> None:
        """Begin again as after a lost session, with all tasks whose ends were not told."""
        told = self._ends.ids()
        self._ends.tell()
        # The first wish may have been handled in part: it will be handled again, as a whole.
        inbox = self.driver.inbox
        again = {task_id for one in (events.submissions_of(inbox[0]) if inbox else ()) for task_id in one.ids}

        def has_ended(task_id: TaskId, entry: Entry) -> bool:
            collector = entry.submission.collector
            return task_id in told or (type(collector) is ScalerFuture and collector.done())

        broken, self._core = self._core, ClientCore(timeout_seconds=self.timeout_seconds)
        todo = self._core.inherit(broken, has_ended, now, again)
        todo.append(actions.Release(self._ends.take_untold(told)))
        if not self.driver.is_stopping:
            self._redial()
        self._perform(todo)
        self.questions.forget()
        _log.debug("a turn of this client was interrupted: %d tasks begin again", self._core.pending_count)

    def next_deadline(self) -> float | None:
        at, look_at = self._core.next_deadline(), self.questions.look_at
        if at is None or look_at is None:
            return look_at if at is None else at
        return min(at, look_at)

    def awake(self, now: float) -> None:
        self.questions.look(now, is_busy=not self._core.is_idle)

    # ------------------------------------------------------------ what comes out of the core

    def _perform(self, todo: list[actions.Action]) -> None:
        for action in todo:
            _PERFORM[type(action)](self, action)
        if self._core.taken:
            self._core.performed()

    def _note(self, event: SessionEvent) -> None:
        """Session events that concern the shell besides the core."""
        if type(event) is Opened and (why := why_no_scheduler(event.welcome, self.driver.endpoint.address)):
            self._rejected = Rejected(codes.BAD_ROLE, why)
        elif type(event) is Opened:
            self.welcome = event.welcome
            self._hello = remembering(self._hello, event.welcome)
            address = event.welcome.storage_address or default_storage_address(self.driver.endpoint.address)
            self._storage.use(address)  # HSK-18
            self._storage.take_over(event.welcome.owner_grant, then=self._note_taken_over)
            self._life = after(self._life, Move.WELCOME)
        elif type(event) is Rejected:
            self._rejected = event
            self._storage.names.refuse(errors.rejection(event.code, event.text))
        if type(event) is Opened or type(event) is Rejected:
            self._settled.set()

    def _do_send(self, action: actions.Send) -> None:
        message = action.message
        self.driver.endpoint.send(message)
        if type(message) is Submit:
            self._core.handle(events.Numbered(self._dialer.sent_seq, message.ids), 0.0)

    def _do_complete(self, action: actions.Complete) -> None:
        ends = self._ends
        if action.outcomes.kinds:
            ends.untold = action
            self._storage.hold(stored_results(action.outcomes), action.submission)
        collector = action.collector
        if not self.driver.is_guest:
            collector.complete(action.outcomes)
        elif type(collector) is not ScalerFuture or not collector.complete_alone(action.outcomes):
            ends.add(action)
            self.driver.watch.wake()
        ends.untold = None

    def _hold(self, task_id: TaskId, error: LargeError) -> None:
        self._storage.hold([(task_id, error.object_id)], None)
        self.garbage.add_after(error, (error.object_id,))

    def tell_later(self, future: ScalerFuture[Any], outcomes: Outcomes, *, is_awaited: bool) -> None:
        """The program has ended it, and others wait for it: the IO thread tells them. Waited for if calls take its
        value, because they end with it."""
        self._ends.add(actions.Complete(future, outcomes))
        self._told_soon()
        if is_awaited:
            self.wait_until_told()

    def soon(self, step: Callable[[], object]) -> None:
        """The IO thread does this, because no interrupt cuts it off there. If an interrupt cuts this off, the step is
        done or is not, and can be asked for again."""
        try:
            self._ends.add_step(step)
            self._told_soon()
        except BaseException:
            self.driver.watch.wake_surely()  # it may be noted
            raise

    def _told_soon(self) -> None:
        self.driver.watch.wake()
        if self._life is _CLOSED:
            self._ends.tell()  # the IO thread does it no more

    def wait_until_told(self) -> None:
        """A moment, until the IO thread has told all ends that are noted, and those that come of them."""
        if threading.current_thread() is not self._thread and not self.driver.is_below():
            fence = self._ends.fence()
            self._told_soon()
            fence.wait(TELL_SECONDS)

    def _redial(self) -> None:
        """Begin again under another name, which takes over what is stored. Only then the old one may leave. (CLI-8)"""
        self._retired.append(self.driver.endpoint)
        self.peer_id = new_peer_id()
        self._hello = renewed(self._hello, self.peer_id)
        self._dialer = dialer_of(self._hello, self.address)
        self.driver.endpoint = self.driver.endpoint.successor(self._dialer)
        self._storage.rename(self.peer_id)

    def _note_lost(self, ids: Sequence[ObjectId], is_session_lost: bool) -> None:
        self.post(events.ObjectsLost(tuple(ids), is_session_lost), is_batch=True)

    def _note_restarted(self) -> None:
        self.post(events.StorageRestarted(), is_batch=True)

    def _note_taken_over(self, owner: PeerId, is_complete: bool) -> None:
        self.post(events.TakenOver(owner, is_complete), is_batch=True)
        if is_complete:
            self._owning = owner
            self.driver.watch.wake()

    def _retire(self) -> None:
        retired, self._retired = self._retired, []
        for endpoint in retired:
            try:
                endpoint.close()
            except Exception as error:  # noqa: BLE001 an interrupt may have left it in any state
                _log.debug("an interrupted session could not say goodbye: %r", error)

    def _do_answer_shutdown(self, action: actions.AnswerShutdown) -> None:
        self._shutdown_answer = action
        self._shutdown_answered.set()

    def _do_explained(self, action: actions.Explained) -> None:
        self.questions.answered(action)

    # ------------------------------------------------------------ the IO thread

    def _run(self) -> None:
        try:
            self.driver.run()
        except BaseException as error:  # noqa: BLE001 whatever it is, no thread may wait for ever
            _log.exception("the client's IO thread failed; its pending tasks are given up")
            self._failure = f"the client's IO thread failed: {error!r}"
        self._end()

    def _end(self) -> None:
        with self.lock:
            self.driver.stop()
            self.driver.is_guest = False
            self._life = after(self._life, Move.END)
            self._ends.tell()
            self._perform_ends(self._core.handle(events.Left(self._failure), 0.0))
            self._retire()
            self.driver.endpoint.close()
            self.driver.watch.close()
            self._shutdown_answered.set()
            self._settled.set()
        self.driver.empty_inbox()  # a post that has not seen the end is seen here
        self.deferred.cancel(tuple(self.deferred))
        # Last, and without the lock: another thread may be in the middle of a large put.
        self._storage.close()

    def _refuse(self, wish: events.ProgramEvent) -> None:
        if type(wish) is events.Asked:
            self.questions.answered(actions.Explained(wish.request_id, None))
        elif type(wish) is events.ShutdownRequested:
            self._shutdown_answered.set()
        else:
            self._perform_ends(self._core.handle(wish, 0.0))
            self._perform_ends(self._core.handle(events.Left(self._failure), 0.0))

    def _perform_ends(self, todo: list[actions.Action]) -> None:
        self._perform([action for action in todo if type(action) is actions.Complete])


_PERFORM: dict[type, Callable[[Connection, Any], None]] = {
    actions.Send: Connection._do_send,
    actions.Complete: Connection._do_complete,
    actions.Release: lambda connection, action: connection._storage.release(action.ids),
    actions.Hold: lambda connection, action: connection._hold(action.task_id, action.error),
    actions.Claim: lambda connection, action: connection._storage.claim(action.results, action.is_asked_for),
    actions.Redial: lambda connection, _: connection._redial(),
    actions.Print: lambda connection, action: connection._printing.print(action),
    actions.Tell: lambda connection, action: connection.preparations.tell(action),
    actions.AnswerShutdown: Connection._do_answer_shutdown,
    actions.Explained: Connection._do_explained,
}
