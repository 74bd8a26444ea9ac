"""One connection to the storage, driven by whichever thread needs it.

Theory of operation. A thread that waits for its operation drives the socket for everybody: it sends what is to be
sent, waits for input, and hands replies out, until its own operation is done; then another waiting thread goes on.
So a lone thread pays for no thread switch at all. A thread that begins an operation while another one drives puts it
into the table and wakes the driver. When nobody waits, the keeper, a background thread, looks in at each deadline of
the session, so that an idle connection stays alive.

All state is under one lock. Only the wait for input happens outside it, and only the driver waits there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

import zmq

from scaler_protocol import codes
from scaler_protocol.addresses import AddressError, check_resolvable
from scaler_protocol.errors import ScalerError, StorageUnavailable
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.messages import Hello, MemoryFile, Welcome
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.directory import DirectoryReader
from scaler_protocol.objects.operations import Operation
from scaler_protocol.objects.requests import ObjectRequests
from scaler_protocol.objects.wake import Wake
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.software import this_software
from scaler_protocol.transport import DealerEndpoint

#: No wait is longer than this, because on Windows Ctrl-C is only noticed between waits.
_SLICE_SECONDS = 1.0
#: The keeper does not look in more often than this, whatever the session's deadlines are.
_KEEPER_SHORTEST_SECONDS = 0.05
#: Turns are at most a slice apart. When there was none for so long, this process was stopped.
_STOPPED_SECONDS = 5 * _SLICE_SECONDS

_logger = logging.getLogger("scaler.objects")


class Link:
    def __init__(
        self, address: str, role: int, software_name: str, timeout_seconds: float, on_restart: Callable[[], None]
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
        self._requests = ObjectRequests(address, timeout_seconds)
        self._endpoint: DealerEndpoint | None = None
        #: guards everything here
        self._lock = threading.RLock()
        #: callers that do not drive, in the order they came; notified when done, or when it is their turn to drive
        self._waiting: dict[Operation, threading.Condition] = {}
        self._is_driven = False
        self._driver_left = threading.Condition(self._lock)
        self._is_closed = False
        self._turned_at = time.monotonic()
        self._wake = Wake()
        self._poller = zmq.Poller()
        #: the descriptor of the endpoint that the poller knows, and its generation
        self._polled: tuple[int, int] | None = None
        self._keeper: threading.Thread | None = None
        self._keeper_stops = threading.Event()

    # ------------------------------------------------------------ for callers

    def run(self, operation: Operation) -> None:
        """Until the operation is done; raises its error. Bounded by the timeout, which the driver watches."""
        with self._lock:
            self._begin(operation)
        self.finish(operation)

    def finish(self, operation: Operation) -> None:
        """The same for one that has been started."""
        with self._lock:
            try:
                while not operation.is_done:
                    if self._is_driven:
                        self._waiting.setdefault(operation, threading.Condition(self._lock)).wait(_SLICE_SECONDS)
                    else:
                        self._drive(operation)
            except BaseException:
                self._requests.abandon(operation)
                raise
            finally:
                self._waiting.pop(operation, None)
        if operation.error is not None:
            raise operation.error

    def start(self, operation: Operation, is_urgent: bool = True) -> None:
        """As `run`, but nobody waits yet, or ever: the keeper sees to it, or whoever drives next. What is not urgent
        leaves together with what is asked next, or when somebody waits for it."""
        with self._lock:
            self._begin(operation)
            if is_urgent and not self._is_driven:
                self._turn()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._keeper_stops.set()
            self._requests.fail_all(StorageUnavailable("the connection to the object storage was closed"))
            self._notify_done()
            if threading.current_thread() is self._keeper:
                return  # called by the garbage collector in the middle of a turn, which is not to be disturbed
            while self._is_driven:
                self._wake.set()
                self._driver_left.wait(_SLICE_SECONDS)
            self._dispose()
        # One that has not begun, because whoever started it was interrupted, finds that it is to stop.
        if self._keeper is not None and self._keeper.is_alive():
            self._keeper.join(_SLICE_SECONDS)

    # ------------------------------------------------------------ driving, under the lock

    def _begin(self, operation: Operation) -> None:
        if self._is_closed:
            raise StorageUnavailable("this connection to the object storage is closed")
        self._requests.begin(operation, time.monotonic())
        if self._endpoint is not None:
            self._endpoint.redial()  # if the last session ended while nobody needed one
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="scaler-objects-keeper", daemon=True)
            self._keeper.start()
        if self._is_driven:
            self._wake.set()

    def _drive(self, operation: Operation) -> None:
        self._is_driven = True
        try:
            while not operation.is_done:
                seconds = self._turn()
                if seconds > 0 and not operation.is_done:
                    self._wait_for_input(seconds)
        finally:
            self._is_driven = False
            self._driver_left.notify()
            for condition in self._waiting.values():
                condition.notify()
                break

    def _turn(self) -> float:
        """Read, react and write, without waiting; how long to wait for input before the next turn."""
        try:
            now = time.monotonic()
            requests = self._requests
            if now - self._turned_at > _STOPPED_SECONDS:
                requests.was_stopped(now)
            self._turned_at = now
            endpoint = self._dialed_endpoint()
            count_before = len(requests.operations)
            for event in endpoint.poll(now):
                self._handle(endpoint, event, now)
            requests.expire(now)
            for request in requests.take_requests(now):
                endpoint.send(request)
            if len(requests.operations) < count_before:
                self._notify_done()
            return 0.0 if endpoint.settle(now) else self._seconds_to_wait(endpoint, now)
        except BaseException:
            # Whoever is interrupted here (Ctrl-C) may have lost a message on its way: begin with a new session.
            self._drop_endpoint("it was interrupted")
            raise

    def _handle(self, endpoint: DealerEndpoint, event: SessionEvent, now: float) -> None:
        if isinstance(event, Received):
            self._requests.receive(event.message, now)
        elif isinstance(event, Opened) and event.welcome.storage_address:
            text = f"a scheduler answers at {self._address}; its object storage is at {event.welcome.storage_address}"
            self._requests.fail_all(StorageUnavailable(text))
            endpoint.bye()
        elif isinstance(event, Opened):
            self._requests.opened(now)
            self._share(event.welcome)
            if self._server_id not in (None, event.peer_id):
                self._on_restart()
            self._server_id = event.peer_id
        elif isinstance(event, Lost):
            self._share(None)
            self._requests.lost(event.text or "the object storage said goodbye", now, event.silent_seconds)
            if self._requests.operations:
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

    def _notify_done(self) -> None:
        for operation, condition in self._waiting.items():
            if operation.is_done:
                condition.notify()

    def _seconds_to_wait(self, endpoint: DealerEndpoint, now: float) -> float:
        deadlines = (endpoint.next_deadline(), self._requests.next_deadline(), now + _SLICE_SECONDS)
        return max(0.0, min(due_at for due_at in deadlines if due_at is not None) - now)

    def _wait_for_input(self, seconds: float) -> None:
        """The one place where the lock is let go while this thread drives."""
        assert self._endpoint is not None
        polled = self._endpoint.fileno(), self._endpoint.generation
        if self._polled != polled:
            # A new one, complete before it is ours: an interrupt leaves none behind that knows half of what it should.
            poller = zmq.Poller()
            for descriptor in (self._wake.fileno(), polled[0]):
                poller.register(descriptor, zmq.POLLIN)
            self._poller, self._polled = poller, polled
        try:
            self._lock.release()  # in here, since an interrupt comes when a call returns
            self.sleep(seconds)
        finally:
            self._lock.acquire()
        self._wake.clear()

    def sleep(self, seconds: float) -> None:
        """Who can choose when to interrupt the thread that drives does so here: nothing is half done."""
        # A millisecond more, so that the deadline has passed and not nearly passed.
        self._poller.poll(int(seconds * 1000) + 1)

    def _keep(self) -> None:
        """The keeper: looks after the session while nobody drives."""
        pause = _KEEPER_SHORTEST_SECONDS
        while not self._keeper_stops.wait(pause):
            pause = _SLICE_SECONDS
            with self._lock:
                if self._is_driven or self._is_closed:
                    continue
                try:
                    pause = max(self._turn(), _KEEPER_SHORTEST_SECONDS)
                except (ScalerError, AddressError, OSError, zmq.ZMQError) as error:  # such as: no descriptor is left
                    _logger.warning("the connection to the object storage: %s", error)
        with self._lock:
            if not self._is_driven:
                self._dispose()

    # ------------------------------------------------------------ the connection

    def _dialed_endpoint(self) -> DealerEndpoint:
        """A new one is a new peer to the storage: nothing of the one before can be mistaken for its."""
        if self._endpoint is None:
            hello = Hello(
                codes.PROTOCOL_VERSION_MIN,
                codes.PROTOCOL_VERSION_MAX,
                self._role,
                new_peer_id(),
                features=memory_files.FEATURES,
                software=this_software(self._software_name),
                memory_file=self._proof_of_host(),
            )
            self._endpoint = DealerEndpoint(
                self._address, SessionDialer(hello=hello, server_name="object storage server")
            )
        return self._endpoint

    def _proof_of_host(self) -> MemoryFile:
        """(HSK-25)"""
        if self._proof is None and memory_files.FEATURES:
            try:
                self._proof = memory_files.create(os.urandom(memory_files.NAME_BYTES))
            except OSError:
                pass  # a Hello without it gets a Welcome without the feature
        return MemoryFile() if self._proof is None else self._proof.reference()

    def _drop_endpoint(self, reason: str) -> None:
        if self._endpoint is not None:
            self._polled = None
            self._endpoint.close()
            self._endpoint = None
            self._share(None)
            self._requests.lost(reason, time.monotonic())
            self._notify_done()

    def _dispose(self) -> None:
        self._drop_endpoint("it was closed")
        self._wake.close()
