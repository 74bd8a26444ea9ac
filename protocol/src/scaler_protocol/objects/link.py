"""One connection to the storage: a handler of the driver, whose guests are the threads that wait for an answer.

Theory of operation. A thread that waits for its operation borrows the socket from the driver's host, the *keeper*, and
drives it for all threads until its own operation is done; then another waiting thread goes on. So a lone thread pays
for no thread switch at all. A thread that cannot borrow the socket sleeps until its operation is done, or until it
can borrow. Meanwhile, and when no thread waits, the keeper serves the socket: nothing ever waits for a hand-over.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from copy import copy

import zmq

from scaler_protocol import codes
from scaler_protocol.addresses import AddressError, check_resolvable
from scaler_protocol.errors import ScalerError, StorageUnavailable
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Hello, MemoryFile, Welcome
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.directory import DirectoryReader
from scaler_protocol.objects.operations import Operation
from scaler_protocol.objects.requests import ObjectRequests
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.receivable import FROM_STORAGE
from scaler_protocol.software import this_software
from scaler_protocol.transport import BlockingDriver, DealerEndpoint
from scaler_protocol.waits import Event

#: While an operation waits, turns are at most so far apart.
_SLICE_SECONDS = 1.0
#: When there was none for so long all the same, this process was stopped.
_STOPPED_SECONDS = 5 * _SLICE_SECONDS
#: Between two attempts of the keeper, when the system lacks what a connection needs, such as descriptors.
_AGAIN_SECONDS = 0.05
#: How long `close` waits for the keeper.
_CLOSE_SECONDS = 1.0

_logger = logging.getLogger("scaler.objects")


class _Abandoned:
    """The caller of this operation was interrupted, or its time was over."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation


class _Closed:
    """No thread will use this connection any more."""


_Wish = Operation | _Abandoned | _Closed


class Link:
    def __init__(
        self,
        address: str,
        role: int,
        software_name: str,
        timeout_seconds: float,
        on_restart: Callable[[], None] | None,
        shown: Pass | None,
    ) -> None:
        check_resolvable(address)
        self._address = address
        self._role = role
        self._software_name = software_name
        self._on_restart = on_restart
        #: which storage answered last
        self._server_id: PeerId | None = None
        #: whether large values need not travel; None: there is no session that would tell
        self.shares_memory: bool | None = None
        #: of the present session, if its storage has one
        self.directory: DirectoryReader | None = None
        #: shows the storage that we are on its host
        self._proof: memory_files.OpenedFile | None = None
        self._peer_id = new_peer_id()
        self._requests = ObjectRequests(address, timeout_seconds)
        #: how many operations were not done when waiting threads were last looked through
        self._known_count = 0
        #: what wakes the threads that could not borrow the socket, in the order they came. Threads leave at any moment,
        #: so only its keys are listed: to make a pair of each may start the collector, and let other threads run
        self._waiting: dict[Operation, Event] = {}
        self._turned_at = time.monotonic()
        self._driver = BlockingDriver(DealerEndpoint(address, self._new_dialer(0), shown), self)
        self.lock = self._driver.lock  #: of the thread that takes a turn
        self._keeper: threading.Thread | None = None
        self._has_keeper = False

    @property
    def endpoint(self) -> DealerEndpoint:
        return self._driver.endpoint

    # ------------------------------------------------------------ for callers

    def run(self, operation: Operation, end_at: float = math.inf) -> None:
        """Until the operation is done; raises its error. Bounded by the timeout, and by `end_at` as `finish`."""
        self.start(operation, is_urgent=False)
        self.finish(operation, end_at)

    def finish(self, operation: Operation, end_at: float = math.inf) -> None:
        """The same for one that has been started. TimeoutError if it is not done by then; nothing waits for it then."""
        try:
            while not operation.is_done:
                if time.monotonic() >= end_at:
                    raise TimeoutError(f"the object storage at {self._address} has not answered in time")
                self._await(operation, end_at)
        except BaseException:
            if not operation.is_done:
                self._driver.post((_Abandoned(operation),), is_urgent=False)
            raise
        finally:
            self._waiting.pop(operation, None)
        self._pass_on()
        if operation.error is not None:
            # A copy: its traceback refers to the frames of the caller, and operations outlive the call.
            raise copy(operation.error)

    def wait(self, operation: Operation, end_at: float) -> bool:
        """Waits until it is done or the time is over, and returns whether it is done. It is to be finished all the
        same."""
        try:
            while not operation.is_done and time.monotonic() < end_at:
                self._await(operation, end_at)
        except BaseException:
            self._waiting.pop(operation, None)
            self._driver.post((_Abandoned(operation),), is_urgent=False)
            raise
        return self._is_done(operation)

    def start(self, operation: Operation, is_urgent: bool = True) -> None:
        """As `run`, but no thread waits yet, or ever: the keeper sees to it, or the thread that drives next. What is
        not urgent leaves together with what is asked next, or when a thread waits for it."""
        driver = self._driver
        if driver.is_stopping:
            raise StorageUnavailable("this connection to the object storage is closed")
        if self._keeper is None:
            self._start_keeper()
        if is_urgent:
            driver.post((operation,), is_urgent=True)
        else:
            driver.inbox.append(operation)
        if driver.is_stopping:
            self._refuse_posted()

    def abandon(self, operation: Operation) -> None:
        """A thread that waits for it waits no more; replies that still come are dropped."""
        self._driver.post((_Abandoned(operation),), is_urgent=True)

    def close(self) -> None:
        """Also in the garbage collector, in the middle of a turn: takes no lock unless there is no keeper."""
        self._driver.inbox.append(_Closed())
        self._driver.watch.wake_surely()
        if self._keeper is None:
            self._keep()  # which returns at once if an interrupt has kept us from knowing our keeper
        elif self._keeper is not threading.current_thread():
            self._keeper.join(_CLOSE_SECONDS)

    def _await(self, operation: Operation, end_at: float) -> None:
        """Until it is done, or something has changed, or the time is over."""
        driver = self._driver
        if driver.inbox and not driver.lead():
            driver.watch.wake()
        driver.serve_until(lambda: operation.is_done, end_at, lambda: True)
        if operation.is_done:
            return
        event = self._waiting.get(operation)
        if event is None:
            event = self._waiting[operation] = Event()
        self._refuse_posted()
        if not self._is_done(operation):  # which it may be since before the event could be set
            self.sleep(event, min(_SLICE_SECONDS, end_at - time.monotonic()))
            event.clear()

    @staticmethod
    def _is_done(operation: Operation) -> bool:
        return operation.is_done

    @staticmethod
    def sleep(event: Event, seconds: float) -> None:
        """An interrupt that can wait for its place comes up here: nothing is half done."""
        event.wait(seconds)

    def _pass_on(self) -> None:
        """This thread needs the socket no more: the first that does may borrow it."""
        if self._driver.watch.is_lent or not self._waiting:
            return
        for operation in list(self._waiting):
            if not operation.is_done and (event := self._waiting.get(operation)) is not None:
                event.set()
                return

    # ------------------------------------------------------------ the driver's handler, with its lock

    def receive(self, event: SessionEvent, now: float) -> None:
        self._notice_stop(now)
        self._on_session(self._driver.endpoint, event, now)

    def handle(self, wish: _Wish, now: float) -> None:
        if isinstance(wish, _Abandoned):
            self._requests.abandon(wish.operation)
        elif isinstance(wish, _Closed):
            self._requests.fail_all(StorageUnavailable("the connection to the object storage was closed"))
            self._driver.stop()
        elif self._driver.is_stopping:
            wish.fail(StorageUnavailable("this connection to the object storage is closed"))
        elif wish not in self._requests.operations:  # handled before, and cut off then
            self._requests.begin(wish, now)
            self._driver.endpoint.redial()  # if the last session ended while no thread needed one

    def finish_round(self, now: float) -> None:
        self._notice_stop(now)
        requests = self._requests
        requests.expire(now)
        for request in requests.take_requests(now):
            self._driver.endpoint.send(request)
        count = len(requests.operations)
        if self._waiting and count != self._known_count:
            self._notify_done()
        self._known_count = count

    def host_turn(self, now: float) -> None:
        pass

    def awake(self, now: float) -> None:
        pass

    def recover(self, now: float) -> None:
        """A message may have been lost on its way: begin with a new session. It replaces the old one, so a put that is
        still on its way there is not stored behind a release in the new one."""
        old = self._driver.endpoint
        self._driver.endpoint = old.successor(self._new_dialer(old.incarnation + 1))
        self._share(None)
        self._requests.interrupted(now)
        self._notify_done()
        try:
            old.close()
        except Exception as error:  # noqa: BLE001 the interrupt may have left it in any state
            _logger.debug("an interrupted session could not say goodbye: %r", error)

    def next_deadline(self) -> float | None:
        at = self._requests.next_deadline()
        return None if at is None else min(at, time.monotonic() + _SLICE_SECONDS)

    def _notice_stop(self, now: float) -> None:
        if self._requests.operations and now - self._turned_at > _STOPPED_SECONDS:
            self._requests.was_stopped(now)
        self._turned_at = now

    def _notify_done(self) -> None:
        for operation in list(self._waiting):
            if operation.is_done and (event := self._waiting.get(operation)) is not None:
                event.set()

    # ------------------------------------------------------------ the keeper

    def _start_keeper(self) -> None:
        """Of two that are started, because an interrupt or another thread came between, one keeps."""
        keeper = threading.Thread(target=self._keep, name="scaler-objects-keeper", daemon=True)
        keeper.start()
        self._keeper = keeper

    def _keep(self) -> None:
        with self._driver.lock:
            if self._has_keeper:
                return
            self._has_keeper = True
        while not self._driver.is_stopping:
            try:
                self._driver.run()
            except (
                BaseException
            ) as error:  # such as: no descriptor is left. Requests would wait for a keeper that ended
                is_foreseen = isinstance(error, (ScalerError, AddressError, OSError, zmq.ZMQError))
                _logger.warning("the connection to the object storage: %s", error, exc_info=not is_foreseen)
                with self._driver.lock:
                    self._requests.expire(time.monotonic())
                    self._notify_done()
                time.sleep(_AGAIN_SECONDS)
        self._dispose()

    def _dispose(self) -> None:
        with self._driver.lock:
            self._driver.endpoint.close()
            self._driver.watch.close()
            self._share(None)
        self._refuse_posted()

    def _refuse_posted(self) -> None:
        """What was started while the connection closed."""
        if not self._driver.is_stopping:
            return
        self._driver.empty_inbox()
        self._notify_done()

    # ------------------------------------------------------------ the session

    def _on_session(self, endpoint: DealerEndpoint, event: SessionEvent, now: float) -> None:
        if isinstance(event, Received):
            self._requests.receive(event.message, now)
        elif isinstance(event, Opened) and event.welcome.storage_address:
            text = f"a scheduler answers at {self._address}; its object storage is at {event.welcome.storage_address}"
            self._requests.fail_all(StorageUnavailable(text))
            endpoint.bye()
        elif isinstance(event, Opened):
            self._requests.opened(now)
            self._share(event.welcome)
            if self._server_id not in (None, event.peer_id) and self._on_restart is not None:
                self._on_restart()
            self._server_id = event.peer_id
        elif isinstance(event, Lost):
            self._share(None)
            self._requests.lost(event.text or "the object storage said goodbye", now, event.silent_seconds)
            if self._requests.operations or (self._on_restart is not None and self._server_id is not None):
                endpoint.redial()
        elif isinstance(event, Rejected):
            text = f"the object storage at {self._address} refuses: {event.text}"
            self._requests.fail_all(StorageUnavailable(text, event.code))
        elif isinstance(event, Complained):
            _logger.warning("the object storage complains: %s (%s)", event.text, event.clause)

    def _share(self, welcome: Welcome | None) -> None:
        """What a session's Welcome says of shared memory; without a session nothing is known."""
        self.shares_memory = self.directory = None
        if welcome is None:
            return
        self.shares_memory = memory_files.FEATURE in welcome.features
        if self.shares_memory and welcome.directory.name:
            try:
                self.directory = DirectoryReader(welcome.directory)
            except (memory_files.Unreadable, OSError) as error:
                _logger.debug("the directory of the object storage is of no use here: %s", error)

    def _new_dialer(self, incarnation: int) -> SessionDialer:
        """Returns a dialer with a higher incarnation than all Hellos of the dialer before. So the storage ends the
        session of the earlier dialer before it opens another, and takes nothing of that session afterwards.
        (HSK-7, HSK-14)"""
        hello = Hello(
            codes.PROTOCOL_VERSION_MIN,
            codes.PROTOCOL_VERSION_MAX,
            self._role,
            self._peer_id,
            incarnation=incarnation,
            features=memory_files.FEATURES,
            software=this_software(self._software_name),
            memory_file=self._proof_of_host(),
        )
        return SessionDialer(
            hello=hello,
            server_name="object storage server",
            allowed_messages=FROM_STORAGE,
            next_peer_id=new_peer_id,  # owners have names of their own
        )

    def _proof_of_host(self) -> MemoryFile:
        """(HSK-25)"""
        if self._proof is None and memory_files.FEATURES:
            try:
                self._proof = memory_files.create(os.urandom(memory_files.NAME_BYTES))
            except OSError:
                pass  # a Hello without it gets a Welcome without the feature
        return MemoryFile() if self._proof is None else self._proof.reference()
