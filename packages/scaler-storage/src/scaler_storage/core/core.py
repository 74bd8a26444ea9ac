"""The object storage as a function: events in, actions out.

Theory of operation. An object exists once all bytes of one upload are there, and until its last owner lets go; both
are instants, so every question about an object has one answer. Requests about objects that do not exist yet may wait;
they are answered by the event that creates the object, ends their time or ends their session. Bytes are kept in the
pieces they arrived in, and every answer is a view of one of them: nothing is joined and nothing is copied. Or they lie
in a memory file that the writer shared, and a reader on this host is told where: then not even a view is needed.

Every request gets exactly one reply, unless its session ends first or it is a release with requestId zero. What a peer
gets wrong is said in that reply; it never changes anything but the peer's own upload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from scaler_protocol import codes
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import (
    Duplicate,
    Get,
    LiveOwners,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    SharedValue,
    StorageStatusRequest,
    Value,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import refusals, room
from scaler_storage.core.actions import Action, Enter, Send, Strike
from scaler_storage.core.departures import Departures
from scaler_storage.core.disk import disk_of
from scaler_storage.core.events import Copied, Event, FileOffered, FoundObject, Kept, Moved, OfPeer, ReadBack, Tick
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.namings import OWNERS_IN_A_SLICE, Namings, Speakers
from scaler_storage.core.objects import ObjectTable
from scaler_storage.core.owners import GoneOwners, UserBytes
from scaler_storage.core.pacing import Pacing
from scaler_storage.core.puts import Puts
from scaler_storage.core.rights import ALLOWED_MESSAGES, ReadGrant, Rights
from scaler_storage.core.states import Change, ObjectState, next_state
from scaler_storage.core.status import Largest, Traffic, status_of
from scaler_storage.core.uploads import UploadTable
from scaler_storage.core.values import AnyValue, FileValue
from scaler_storage.core.waiters import Waiter, WaiterTable, WaitingRequest
from scaler_storage.core.work import Job, Work, weight

IDS_IN_A_SLICE = 256
Available = tuple[ObjectId, list[Waiter]]
"""An object, and those that have waited for it and no longer do."""


class StorageCore(Puts):
    def __init__(
        self,
        limits: CoreLimits | None = None,
        unread: Callable[[PeerId], int] = lambda peer_id: 0,
        all_unread: Callable[[], int] = lambda: 0,
        read_grant: ReadGrant | None = None,
        date: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`unread`, `all_unread`: bytes that the session keeps for a peer, or for all, because they are not read.
        `read_grant`: what a grant says of an owner. None: there are no keys, and any peer may name any owner.
        `date`: seconds since 1970, with which the ends of grants are compared."""
        super().__init__()
        self.limits = limits or CoreLimits()
        self.pacing = Pacing(self.limits, unread, all_unread)
        #: the role of every peer with a session
        self.roles: dict[PeerId, int] = {}
        self.disk = disk_of(self.limits)
        self.by_user = None if self.limits.user_bytes is None else UserBytes(has_keys=read_grant is not None)
        self.objects = ObjectTable(self.disk.spilling, self.by_user)
        self.largest = Largest()
        self.traffic = Traffic()
        self.rights = Rights(read_grant, self.roles, self.objects, date)
        self.uploads = UploadTable(self.limits)
        self.waiters = WaiterTable()
        self.gone_owners = GoneOwners(self.limits.gone_owners)
        self.departures = Departures()
        self.namings = Namings(self.limits)
        self.speakers = Speakers(self.roles, self.limits.owners)
        self.work = Work(self.limits, unread)
        self._now = -math.inf
        self._on_event: dict[type, Callable[[Any], Job | None]] = {
            Opened: self._opened,
            Received: self._received,
            FileOffered: self._file_offered,
            Lost: self._lost,
        }
        self._on_message: dict[type, Callable[[PeerId, Any], Job | None]] = {
            Put: self._put,
            Get: self._get,
            Duplicate: self._duplicate,
            Release: self._release,
            ReleaseOwner: self._release_owner,
            LiveOwners: self._live_owners,
            StorageStatusRequest: self._status,
        }

    # ------------------------------------------------------------ the contract

    def handle(self, event: Event, now: float) -> list[Action]:
        self._now = max(self._now, now)
        self._actions = []
        self.pacing.begin()
        # What is due goes first: a Get whose time is up is not served by an object that came later. (STO-7)
        self._expire()
        if isinstance(event, (Moved, ReadBack, Copied, Kept)):
            self.disk.handle(self, event)
        elif isinstance(event, Tick):
            self._go_on()
        elif event.peer_id in self.work.jobs:
            if isinstance(event, Lost):
                self.pacing.forget(event.peer_id)
            self.work.defer(event.peer_id, self._later(event), weight(event))
        else:
            job = self.disk.waits(self, event) or self.perform(event)
            if job is not None:
                self.work.start(event.peer_id, job, weight(event))
        self.disk.settle(self)
        return self._actions

    def perform(self, event: OfPeer) -> Job | None:
        return self._on_event[type(event)](event)

    def _later(self, event: OfPeer) -> Job:
        yield 1
        yield from self.disk.waits(self, event) or self.perform(event) or ()

    def restore(self, found: Iterable[FoundObject], now: float) -> tuple[int, int]:
        """What a storage of before has kept (STO-41), before the first event. Returns how many objects there are
        again, and how many are dropped because this storage has no room for them."""
        assert self.disk.keeping is not None, "a data directory"
        self._now = now
        counts = self.disk.keeping.restore(self.objects, found, now)
        for object_id, stored in self.objects.objects.items():
            self.largest.add(object_id, stored.value.total_bytes, now)
        return counts

    @property
    def now(self) -> float:
        return self._now

    def act(self, action: Action) -> None:
        self._actions.append(action)

    def next_deadline(self) -> float | None:
        if self.departures or self.work.is_left or self.pacing.is_behind:
            return self._now  # work is left over: the next Tick goes on with it
        deadlines = (self.waiters.deadlines.next(), self.uploads.deadlines.next(), self.disk.next_deadline())
        return min((due_at for due_at in deadlines if due_at is not None), default=None)

    def is_busy_with(self, peer_id: PeerId) -> bool:
        """Not all that this peer's messages cause has left: it gets no Pong yet. (LIV-4)"""
        is_leaving = any(departure.peer_id == peer_id for departure in self.departures)
        return is_leaving or peer_id in self.work.jobs or peer_id in self.pacing.waiting

    @property
    def memory_bytes(self) -> int:
        """Bytes held in memory for objects, for what is noted of them, and for uploads that are not finished."""
        noted_bytes = self.limits.entry_bytes * (self.objects.entries + len(self.uploads.uploads))
        value_bytes = self.objects.value_bytes - self.disk.spilling.away_bytes
        return value_bytes + noted_bytes + self.uploads.received_bytes

    def state_of(self, object_id: ObjectId) -> ObjectState:
        if object_id in self.objects.objects:
            return ObjectState.STORED
        return ObjectState.AWAITED if object_id in self.waiters.by_object else ObjectState.ABSENT

    # ------------------------------------------------------------ sessions and time

    def _opened(self, event: Opened) -> None:
        assert event.peer_id not in self.roles, "a session is lost before the same peer opens another"
        self.roles[event.peer_id] = event.hello.role
        self.traffic.opened(event.peer_id, event.hello.software.host)
        self.rights.opened(event.peer_id, event.identity)
        if event.identity is not None:
            self.uploads.users[event.peer_id] = event.identity.user
        if event.hello.role == codes.ROLE_SCHEDULER:
            self.namings.begin_session(event.peer_id)

    def _received(self, event: Received) -> Job | None:
        message: Any = event.message
        kind = type(message)
        assert kind is not PutShared, "the shell opens the file first, and hands over a FileOffered"
        assert kind in ALLOWED_MESSAGES[self.roles[event.peer_id]], "the session layer has refused it (STO-15)"
        if kind is Put:
            self.traffic.put(event.peer_id, memoryview(message.payload).nbytes)
        if (refusal := self.rights.refusal(event.peer_id, message)) is None:
            job = self._on_message[kind](event.peer_id, message)
            if isinstance(message, (Put, Duplicate)):
                self.speakers.note(event.peer_id, message.owner)
            return job
        if kind is Put:
            self._drop_upload(event.peer_id, message.object_id)
        if message.request_id or kind is not Release:
            self._refuse(event.peer_id, message.request_id, refusal)
        return None

    def _lost(self, event: Lost) -> Job | None:
        """What the peer was doing ends with it; what it has stored stays until it is released. (STO-8, OWN-1)"""
        self.pacing.forget(event.peer_id)
        self.work.pressure.forget(event.peer_id)
        self.uploads.remove_peer(event.peer_id)
        self.namings.end_session(event.peer_id)
        waiters = self.waiters.of_peer(event.peer_id)
        if len(waiters) > IDS_IN_A_SLICE:
            return self._end_waits(event.peer_id, waiters)
        for waiter in waiters:
            self._end_wait(waiter)
        self._forget(event.peer_id)
        return None

    def _end_waits(self, peer_id: PeerId, waiters: Sequence[Waiter]) -> Job:
        for start in range(0, len(waiters), IDS_IN_A_SLICE):
            for waiter in waiters[start : start + IDS_IN_A_SLICE]:
                if waiter.number in self.waiters.waiters:  # it may have been answered meanwhile
                    self._end_wait(waiter)
            yield IDS_IN_A_SLICE
        self._forget(peer_id)

    def _forget(self, peer_id: PeerId) -> None:
        del self.roles[peer_id]
        self.rights.lost(peer_id)
        self.traffic.lost(peer_id)

    def _expire(self) -> None:
        self.uploads.remove_idle(self._now)
        while (waiter := self.waiters.first_due(self._now)) is not None:
            self._end_wait(waiter)
            refusal = refusals.no_such_object(waiter.object_id, is_waited_for=True)
            self._refuse(waiter.peer_id, waiter.request.request_id, refusal)

    # ------------------------------------------------------------ Get and Duplicate

    def _get(self, peer_id: PeerId, get: Get) -> Job | None:
        """In the order in which they came, as far as the peer reads. (LIM-14)"""
        if self.pacing.is_free(peer_id):
            return self._answer_get(peer_id, get)
        most = self._most_waits()
        if not self.pacing.wait(peer_id, get, most):
            refusal = refusals.too_many("Gets whose answers are not read", most)
            self._refuse(peer_id, get.request_id, refusal)
        return None

    def _most_waits(self) -> int:
        """How many requests of one session may wait: less when all sessions together have many. (LIM-19)"""
        limits = self.limits
        is_much = len(self.waiters) + self.pacing.count >= limits.all_waiters
        return min(limits.least_waiters, limits.session_waiters) if is_much else limits.session_waiters

    def _answer_later(self, peer_id: PeerId, get: Get) -> None:
        """A Get that has waited."""
        job = self._answer_get(peer_id, get)
        if job is not None:
            self.work.add(peer_id, job)

    def _answer_get(self, peer_id: PeerId, get: Get) -> Job | None:
        stored = self.objects.get(get.object_id)
        if stored is None or not self.rights.may_read(peer_id, get, stored):
            self._wait(peer_id, get, get.object_id)
        elif get.offset > stored.value.total_bytes:
            self._refuse(peer_id, get.request_id, refusals.bad_range(get, stored.value.total_bytes))
        else:
            return self._send_value(peer_id, get, stored.value)
        return None

    def _send_value(self, peer_id: PeerId, get: Get, value: AnyValue) -> Job | None:
        if get.accepts_shared and (file := value.shared) is not None:
            self.disk.spilling.used(value, self._now, is_to_be_continued=False)
            self._answer(peer_id, SharedValue(get.request_id, value.total_bytes, file.reference()))
            return None
        most_bytes = min(get.chunk_bytes or self.limits.chunk_bytes, self.limits.chunk_bytes)
        if value.extent is not None and get.offset < value.total_bytes:
            return self.disk.read_back(self, peer_id, get, value, most_bytes)
        chunk = value.slice_at(get.offset, most_bytes)
        self.disk.spilling.used(value, self._now, is_to_be_continued=get.offset + len(chunk) < value.total_bytes)
        self.pacing.let_out(peer_id, len(chunk))
        self.traffic.got(peer_id, len(chunk))
        self._actions.append(Send(peer_id, Value(get.request_id, value.total_bytes, get.offset, chunk)))
        return None

    def _duplicate(self, peer_id: PeerId, duplicate: Duplicate) -> None:
        source, target = self.objects.get(duplicate.source), self.objects.get(duplicate.target)
        if duplicate.owner in self.gone_owners:
            self._refuse(peer_id, duplicate.request_id, refusals.owner_gone(duplicate.owner))
        elif target is not None and duplicate.owner in target.owners:
            self._put_again(duplicate.target, duplicate.owner, duplicate.grant)
            # As with Put: asked again after a lost session, when the source may be gone already. (STO-9)
            self._confirm(peer_id, duplicate.request_id)
        elif source is None or not self.rights.may_read(peer_id, duplicate, source):
            self._wait(peer_id, duplicate, duplicate.source)
        elif (refusal := room.check_duplicate(self, self.disk, duplicate, source.value, target)) is not None:
            self._refuse(peer_id, duplicate.request_id, refusal)
        elif target is not None:
            self._name_again(peer_id, duplicate, source.value)
        else:
            self._confirm(peer_id, duplicate.request_id)
            self._complete(duplicate.target, source.value, duplicate.owner, duplicate.grant)

    def _name_again(self, peer_id: PeerId, duplicate: Duplicate, value: AnyValue) -> None:
        """The target exists already: as another name of this value, or it is another object. (STO-31)"""
        target = self.objects.objects[duplicate.target]
        if duplicate.owner in target.owners:
            self._put_again(duplicate.target, duplicate.owner, duplicate.grant)
            self._confirm(peer_id, duplicate.request_id)  # it became one while the Duplicate waited (STO-9)
        elif target.value is value:
            self._add_owner(duplicate.target, duplicate.owner, duplicate.grant)
            self._confirm(peer_id, duplicate.request_id)
        else:
            self._refuse(peer_id, duplicate.request_id, refusals.exists(duplicate.target))

    def _wait(self, peer_id: PeerId, request: WaitingRequest, object_id: ObjectId) -> None:
        most = self.limits.object_waiters
        # Written so that a NaN is no wait at all.
        if not request.wait_seconds > 0:
            self._refuse(peer_id, request.request_id, refusals.no_such_object(object_id, is_waited_for=False))
        elif self.waiters.count_of(peer_id) >= (most_waits := self._most_waits()):
            refusal = refusals.too_many("requests that wait for an object", most_waits)
            self._refuse(peer_id, request.request_id, refusal)
        elif self.waiters.count_for(object_id, family := self.rights.reader_family(peer_id, request)) >= most:
            self._refuse(peer_id, request.request_id, refusals.too_many_for(object_id, most))
        else:
            next_state(self.state_of(object_id), Change.WAIT_BEGAN)
            self.waiters.add(peer_id, request, family, self._now + min(request.wait_seconds, self.limits.wait_seconds))

    def _end_wait(self, waiter: Waiter) -> None:
        change = Change.LAST_WAIT_ENDED if self.waiters.is_last(waiter) else Change.WAIT_ENDED
        next_state(self.state_of(waiter.object_id), change)
        self.waiters.remove(waiter)

    # ------------------------------------------------------------ objects come and go

    def _complete(self, object_id: ObjectId, value: AnyValue, owner: PeerId, grant: bytes) -> None:
        """The object exists from here on: serve who waited for it, in the order they came.

        A Duplicate that is served creates an object others may wait for, and so on; hence a list of ids that have
        become available instead of recursion, whose depth a peer could choose.
        """
        self._serve([self._create(object_id, value, owner, grant)])

    def _serve(self, available: list[Available]) -> None:
        for created_id, waiters in available:
            for waiter in waiters:
                if isinstance(waiter.request, Get):
                    job = self._get(waiter.peer_id, waiter.request)
                    if job is not None:  # another name of a value that is on the disk
                        self.work.add(waiter.peer_id, job)
                    continue
                request, shared = waiter.request, self.objects.objects[created_id].value
                if (no_right := self.rights.refusal(waiter.peer_id, request)) is not None:
                    self._refuse(waiter.peer_id, request.request_id, no_right)
                elif request.target in self.objects.objects:
                    self._name_again(waiter.peer_id, request, shared)
                elif (refusal := room.check_duplicate(self, self.disk, request, shared, None)) is not None:
                    self._refuse(waiter.peer_id, request.request_id, refusal)
                else:
                    self._confirm(waiter.peer_id, request.request_id)
                    available.append(self._create(request.target, shared, request.owner, request.grant))

    def _create(self, object_id: ObjectId, value: AnyValue, owner: PeerId, grant: bytes) -> Available:
        next_state(self.state_of(object_id), Change.COMPLETED)
        self.objects.add(object_id, value, owner, *self.rights.owning(owner, grant))
        self.largest.add(object_id, value.total_bytes, self._now)
        if isinstance(value, FileValue) and value.file is not None:
            self._actions.append(Enter(object_id, value.file))
        return object_id, self._admitted(object_id)

    def _add_owner(self, object_id: ObjectId, owner: PeerId, grant: bytes) -> None:
        next_state(self.state_of(object_id), Change.OWNER_ADDED)
        self.objects.add_owner(object_id, owner, *self.rights.owning(owner, grant))
        if object_id in self.waiters.by_object:
            self._serve([(object_id, self._admitted(object_id))])

    def _put_again(self, object_id: ObjectId, owner: PeerId, grant: bytes) -> None:
        if self.objects.owned[owner][object_id] and not self.rights.owning(owner, grant)[1]:
            self.objects.own_again(object_id, owner)

    def _admitted(self, object_id: ObjectId) -> list[Waiter]:
        return self.waiters.take(object_id, self.objects.objects[object_id].families)

    def _let_go(self, object_id: ObjectId, owner: PeerId) -> None:
        stored = self.objects.objects[object_id]
        is_last = len(stored.owners) == 1
        next_state(self.state_of(object_id), Change.LAST_OWNER_RELEASED if is_last else Change.OWNER_RELEASED)
        self.objects.release(object_id, owner)
        if object_id not in self.objects.objects:
            self.largest.remove(object_id, stored.value.total_bytes)
            self._actions.append(Strike(object_id))

    def _release(self, peer_id: PeerId, release: Release) -> Job | None:
        ids, borrower = split_ids(release.ids), self.rights.borrower(peer_id, release)
        if len(ids) > IDS_IN_A_SLICE:
            return self._release_many(peer_id, release, ids, borrower)
        self._release_some(release.owner, ids, borrower)
        self._confirm_release(peer_id, release.request_id)
        return None

    def _release_many(self, peer_id: PeerId, release: Release, ids: Sequence[bytes], borrower: bytes) -> Job:
        for start in range(0, len(ids), IDS_IN_A_SLICE):
            yield 1 + self._release_some(release.owner, ids[start : start + IDS_IN_A_SLICE], borrower)
        self._confirm_release(peer_id, release.request_id)

    def _release_some(self, owner: PeerId, ids: Sequence[bytes], borrower: bytes) -> int:
        """How many steps it took. `borrower`: only what the workers of this user have put. (STO-47)"""
        released = 0
        for object_id in map(ObjectId, ids):
            putter = self.objects.owned.get(owner, {}).get(object_id)
            if putter is not None and (not borrower or putter == borrower):
                self._let_go(object_id, owner)
                released += 1
        return released + len(ids) // 8

    def _release_owner(self, peer_id: PeerId, release: ReleaseOwner) -> None:
        if not self.rights.may_release_all(release):
            self._confirm_release(peer_id, release.request_id)
            return
        self.gone_owners.add(release.owner)
        self.uploads.remove_owner(release.owner)
        for waiter in self.waiters.for_owner(release.owner):
            self._end_wait(waiter)
            self._refuse(waiter.peer_id, waiter.request.request_id, refusals.owner_gone(release.owner))
        self.departures.add(peer_id, release, self.objects.owned.get(release.owner, ()))
        self._release_departed()

    def _live_owners(self, peer_id: PeerId, part: LiveOwners) -> Job:
        refusal = self.namings.take(peer_id, part)
        if refusal is not None:
            self._refuse(peer_id, part.request_id, refusal)
            return
        if self.namings.is_whole(peer_id):
            for owners in self.namings.close(peer_id, self.objects.owned, self.speakers.has_session):
                for owner in owners:
                    self._release_owner(peer_id, ReleaseOwner(0, owner))
                    yield 8 + (len(self.uploads.uploads) + len(self.waiters)) // 8
                yield OWNERS_IN_A_SLICE
        self._confirm(peer_id, part.request_id)

    def _go_on(self) -> None:
        """Once in each turn."""
        self.work.begin_turn()
        self.disk.tick(self)
        if (keeping := self.disk.keeping) is not None:
            for owner in keeping.take_unclaimed(OWNERS_IN_A_SLICE, self._now):
                if not self.namings.is_named(owner) and not self.speakers.has_session(owner):
                    self._release_owner(owner, ReleaseOwner(0, owner))
        self.work.go_on()
        self._release_departed()
        self.work.left -= self.pacing.go_on(self._answer_later, self.work.left)

    def _release_departed(self) -> None:
        for departure in self.departures.work_off(self.work, self.objects.owned, self._let_go):
            if departure.peer_id in self.roles:
                self._confirm_release(departure.peer_id, departure.release.request_id)

    # ------------------------------------------------------------ replies

    def _status(self, peer_id: PeerId, request: StorageStatusRequest) -> None:
        role, waiting, spilling = self.roles[peer_id], len(self.waiters), self.disk.spilling
        status = status_of(request, role, self.objects, self.memory_bytes, waiting, spilling)
        if role == codes.ROLE_SCHEDULER and request.largest_count:
            largest = self.largest.told(self.objects, request.largest_count, self._now)
            status = replace(status, largest=largest, traffic=self.traffic.told())
        self._answer(peer_id, status)
