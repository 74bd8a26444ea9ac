"""Plays steps against a storage, with a model of objects, owners, uploads and waiters beside it.

Answers of a storage are exact: what a request is answered follows from what came before. Only how a value is cut and in
which order different requests are answered is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, code_name

from .steps import Step

WEIGHTS = {
    "put": 14, "put_first": 8, "put_next": 10, "put_wrong": 3, "get": 12, "get_waiting": 6, "duplicate": 6,
    "release": 8, "release_owner": 2, "status": 4, "resume": 3, "leave": 2, "replace": 2, "join": 2, "strange": 1,
}  # fmt: skip
MOST_PEERS, OBJECTS, OWNERS = 3, 5, 3
TOTAL = 40
#: Longer than any sequence takes.
WAIT_SECONDS = 600.0


def play(scene: Scene, steps: list[Step], edges: Counter[str]) -> None:
    player = StoragePlayer(scene, edges)
    for step in steps:
        player.step(step)


@dataclass(eq=False)
class Upload:
    value: bytes
    done: int
    owner: bytes
    #: the object that existed when it began, of which it has to show the bytes (STO-30)
    against: object = None


@dataclass(eq=False)
class Waiter:
    """A Get or Duplicate that waits for its source."""

    peer: StoragePeer
    request: int
    source: bytes
    offset: int = 0
    target: bytes = b""
    owner: bytes = b""


@dataclass
class Due:
    """What is to come: replies by peer and request, values with the bytes they must have."""

    codes: dict[tuple[bytes, int], tuple[int, ...]] = field(default_factory=dict)
    values: dict[tuple[bytes, int], tuple[bytes, int]] = field(default_factory=dict)


class StoragePlayer:
    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        self.scene = scene
        self.edges = edges
        self.scheduler = scene.requester("scheduler")
        self.peers = [scene.requester(), scene.requester("worker")]
        self.ids = [new_id() for _ in range(OBJECTS)]
        self.owners = [new_id() for _ in range(OWNERS)]
        scene.owners.update(self.owners)
        for identifier in self.ids:
            scene.transcript.name(identifier, "o")
        for number, owner in enumerate(self.owners):
            scene.transcript.call(owner, f"owner{number + 1}")
        self.values: dict[bytes, bytes] = {}
        self.owned: dict[bytes, set[bytes]] = {}
        #: one for each life of an object
        self.lives: dict[bytes, object] = {}
        self.gone: set[bytes] = set()
        self.uploads: dict[tuple[StoragePeer, bytes], Upload] = {}
        self.waiters: list[Waiter] = []
        #: Duplicates that wait in the name of an owner who is gone
        self._abandoned: list[tuple[StoragePeer, int]] = []
        self.due = Due()
        status = self.scheduler.status()
        self.base = {name: status[name] for name in ("objectCount", "ownerCount", "waiterCount")}

    def step(self, step: Step) -> None:
        name, *numbers = step
        act: Callable[[int, int, int, int], StoragePeer | None] = getattr(self, f"_{name}")
        actor = act(*numbers)
        if actor is not None:
            self.edges[f"step: {name}"] += 1
        self._settle(actor)

    # ------------------------------------------------------------ who and what

    def _peer(self, number: int) -> StoragePeer:
        return self.peers[number % len(self.peers)]

    def _owner(self, number: int) -> bytes:
        if all(owner in self.gone for owner in self.owners):
            fresh = new_id()
            self.owners[number % OWNERS] = fresh
            self.scene.owners.add(fresh)
        return self.owners[number % OWNERS]

    def _value(self, identifier: bytes) -> bytes:
        """Same id, same bytes: that is the rule requesters keep."""
        return (identifier * 3)[:TOTAL]

    def _edge(self, identifier: bytes, event: str, before: str) -> None:
        self.edges[f"object: {before} | {event} | {self._state(identifier)}"] += 1

    def _state(self, identifier: bytes) -> str:
        if identifier in self.values:
            return "stored"
        if any(name == identifier for _, name in self.uploads):
            return "uploading"
        return "awaited" if any(waiter.source == identifier for waiter in self.waiters) else "absent"

    def _expect(self, peer: StoragePeer, request: int, *codes: int) -> None:
        self.due.codes[peer.peer_id, request] = codes

    # ------------------------------------------------------------ puts

    def _put(self, who: int, which: int, owner: int, _: int) -> StoragePeer:
        peer, identifier, name = self._peer(who), self.ids[which % OBJECTS], self._owner(owner)
        before = self._state(identifier)
        request = peer.put(identifier, self._value(identifier), owner=name)
        if name in self.gone:
            self._expect(peer, request, CODES.OWNER_GONE)
            self.uploads.pop((peer, identifier), None)  # a chunk of another owner ends it (STO-5)
        else:
            self._expect(peer, request, CODES.OK)
            self.uploads.pop((peer, identifier), None)
            self._own(identifier, name)
        self._edge(identifier, "Put of all its bytes", before)
        return peer

    def _put_first(self, who: int, which: int, owner: int, size: int) -> StoragePeer:
        peer, identifier, name = self._peer(who), self.ids[which % OBJECTS], self._owner(owner)
        before = self._state(identifier)
        count = 1 + size % (TOTAL - 1)
        request = peer.put(identifier, self._value(identifier)[:count], total=TOTAL, owner=name)
        if name in self.gone:
            self._expect(peer, request, CODES.OWNER_GONE)
            self.uploads.pop((peer, identifier), None)  # a chunk of another owner ends it (STO-5)
        else:
            self._expect(peer, request, CODES.OK)
            self.uploads.pop((peer, identifier), None)
            if name not in self.owned.get(identifier, ()):
                self.uploads[peer, identifier] = Upload(
                    self._value(identifier), count, name, self.lives.get(identifier)
                )
        self._edge(identifier, "Put of its first bytes", before)
        return peer

    def _put_next(self, which: int, size: int, last: int, _: int) -> StoragePeer | None:
        if not self.uploads:
            return None
        (peer, identifier), upload = list(self.uploads.items())[which % len(self.uploads)]
        is_again = upload.owner in self.owned.get(identifier, ())
        if is_again or upload.against is not self.lives.get(identifier):
            del self.uploads[peer, identifier]  # whether it goes on from here is for the storage to know (STO-10)
            if not is_again:
                return None
        before = self._state(identifier)
        count = TOTAL - upload.done if last % 2 else 1 + size % (TOTAL - upload.done)
        piece = upload.value[upload.done : upload.done + count]
        request = peer.put(identifier, piece, offset=upload.done, total=TOTAL, owner=upload.owner)
        self._expect(peer, request, CODES.OK)
        upload.done += count
        if upload.done == TOTAL and not is_again:
            del self.uploads[peer, identifier]
            self._own(identifier, upload.owner)
        self._edge(identifier, "Put of further bytes", before)
        return peer

    def _put_wrong(self, which: int, how: int, *_: int) -> StoragePeer | None:
        """Out of order, or with another total: the upload ends. To an object that exists it is one Put more."""
        if not self.uploads:
            return None
        (peer, identifier), upload = list(self.uploads.items())[which % len(self.uploads)]
        if identifier in self.values or upload.owner in self.gone:
            return None
        before = self._state(identifier)
        offset, total = (upload.done + 1, TOTAL) if how % 2 and upload.done + 1 < TOTAL else (upload.done, TOTAL + 7)
        request = peer.put(identifier, b"?", offset=offset, total=total, owner=upload.owner)
        self._expect(peer, request, CODES.BAD_CHUNK)
        del self.uploads[peer, identifier]
        self._edge(identifier, "the last upload ends: a chunk out of order", before)
        return peer

    def _own(self, identifier: bytes, owner: bytes) -> None:
        """The object exists from now on, or has one owner more; who has waited is answered."""
        is_new = identifier not in self.values
        self.values[identifier] = self._value(identifier)
        self.lives.setdefault(identifier, object())
        self.owned.setdefault(identifier, set()).add(owner)
        if is_new:
            ready = [waiter for waiter in self.waiters if waiter.source == identifier]
            self.waiters = [waiter for waiter in self.waiters if waiter.source != identifier]
            for waiter in ready:
                self._serve(waiter)

    # ------------------------------------------------------------ gets

    def _get(self, who: int, which: int, offset: int, chunk: int) -> StoragePeer:
        return self._ask(who, which, offset, chunk, 0.0)

    def _get_waiting(self, who: int, which: int, offset: int, _: int) -> StoragePeer:
        return self._ask(who, which, offset % 2, 0, WAIT_SECONDS)

    def _ask(self, who: int, which: int, offset: int, chunk: int, wait: float) -> StoragePeer:
        peer, identifier = self._peer(who), self.ids[which % OBJECTS]
        before = self._state(identifier)
        begin = (0, 0, 1, TOTAL - 1, TOTAL, TOTAL + 1)[offset % 6]
        request = peer.get(identifier, offset=begin, chunk=chunk % 20, wait=wait)
        waiter = Waiter(peer, request, identifier, begin)
        if identifier in self.values:
            self._serve(waiter)
        elif wait:
            self.waiters.append(waiter)
        else:
            self._expect(peer, request, CODES.NO_SUCH_OBJECT)
        self._edge(identifier, "Get that waits" if wait else "Get", before)
        return peer

    def _serve(self, waiter: Waiter) -> None:
        key = waiter.peer.peer_id, waiter.request
        value = self.values[waiter.source]
        if waiter.target:
            if waiter.owner in self.gone:
                self._expect(waiter.peer, waiter.request, CODES.OWNER_GONE)
            else:
                self._expect(waiter.peer, waiter.request, CODES.OK)
                self._duplicated(waiter)
        elif waiter.offset > len(value):
            self._expect(waiter.peer, waiter.request, CODES.BAD_CHUNK)
        else:
            self.due.values[key] = value, waiter.offset

    def _duplicate(self, who: int, which: int, to: int, more: int) -> StoragePeer:
        """To a target of its own: what is a name of what is then for nobody to know."""
        peer, source = self._peer(who), self.ids[which % OBJECTS]
        before = self._state(source)
        owner = self._owner(to)
        target = new_id()
        self.scene.transcript.name(target, "copy")
        waits = more % 2 == 1
        request = peer.duplicate(source, target, owner=owner, wait=WAIT_SECONDS if waits else 0.0)
        waiter = Waiter(peer, request, source, target=target, owner=owner)
        if owner in self.gone:
            # It may say so at once, or when the source is there, or that there is no source.
            self._expect(peer, request, CODES.OWNER_GONE, CODES.NO_SUCH_OBJECT)
        elif source in self.values:
            self._serve(waiter)
        elif waits:
            self.waiters.append(waiter)
        else:
            self._expect(peer, request, CODES.NO_SUCH_OBJECT)
        self._edge(source, "Duplicate", before)
        return peer

    def _duplicated(self, waiter: Waiter) -> None:
        self.values[waiter.target] = self.values[waiter.source]
        self.owned[waiter.target] = {waiter.owner}

    # ------------------------------------------------------------ letting go

    def _release(self, who: int, which: int, owner: int, how: int) -> StoragePeer:
        peer, name = self._peer(who), self._owner(owner)
        known = list(self.values) or self.ids
        identifier = known[which % len(known)]
        before = self._state(identifier)
        request = peer.release(identifier, *([identifier, new_id()] if how % 3 == 0 else []), owner=name)
        self._expect(peer, request, CODES.OK)
        self._disown(identifier, name)
        self._edge(identifier, "an owner releases it", before)
        return peer

    def _disown(self, identifier: bytes, owner: bytes) -> None:
        owners = self.owned.get(identifier, set())
        owners.discard(owner)
        if identifier in self.values and not owners:
            del self.values[identifier]
            del self.owned[identifier]
            self.lives.pop(identifier, None)

    def _release_owner(self, owner: int, *_: int) -> StoragePeer:
        name = self._owner(owner)
        self._expect(self.scheduler, self.scheduler.release_owner(name), CODES.OK)
        self.gone.add(name)
        for identifier in list(self.values):
            self._disown(identifier, name)
        self.uploads = {key: upload for key, upload in self.uploads.items() if upload.owner != name}
        # A Duplicate that waits in its name may be answered now, or when its source comes.
        for waiter in [waiter for waiter in self.waiters if waiter.owner == name]:
            self.waiters.remove(waiter)
            self._abandoned.append((waiter.peer, waiter.request))
        return self.scheduler

    # ------------------------------------------------------------ sessions

    def _resume(self, who: int, *_: int) -> StoragePeer:
        peer = self._peer(who)
        peer.resume(peer.told_ack)
        return peer

    def _leave(self, who: int, *_: int) -> StoragePeer | None:
        if len(self.peers) < 2:
            return None
        peer = self._peer(who)
        peer.leave()
        self._forget(peer)
        self.peers.remove(peer)
        return peer

    def _replace(self, who: int, *_: int) -> StoragePeer:
        peer = self._peer(who)
        peer.inbox.clear()
        peer.incarnation += 1
        peer.open()
        self._forget(peer)
        return peer

    def _forget(self, peer: StoragePeer) -> None:
        self.uploads = {key: upload for key, upload in self.uploads.items() if key[0] is not peer}
        self.waiters = [waiter for waiter in self.waiters if waiter.peer is not peer]
        self._abandoned = [entry for entry in self._abandoned if entry[0] is not peer]

    def _join(self, *_: int) -> StoragePeer | None:
        if len(self.peers) >= MOST_PEERS:
            return None
        self.peers.append(self.scene.requester())
        return self.peers[-1]

    def _strange(self, who: int, *_: int) -> StoragePeer:
        peer = self._peer(who)
        seq = peer.send("releaseOwner", requestId=1, owner=self._owner(who))
        peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False, clause="STO-15")
        return peer

    def _status(self, *_: int) -> StoragePeer:
        status = self.scheduler.status()
        owners = {owner for owners in self.owned.values() for owner in owners}
        if status["objectCount"] - self.base["objectCount"] != len(self.values):
            more = status["objectCount"] - self.base["objectCount"]
            raise Breach(f"StorageStatus counts {more} objects, and there are {len(self.values)}", "STO-16")
        uploading = {upload.owner for upload in self.uploads.values()}
        more = status["ownerCount"] - self.base["ownerCount"]
        if not len(owners) <= more <= len(owners | uploading | self.gone):
            raise Breach(f"StorageStatus counts {more} owners, and there are {len(owners)}", "STO-16")
        return self.scheduler

    # ------------------------------------------------------------ comparing

    def _settle(self, actor: StoragePeer | None) -> None:
        if actor is not None and actor.is_open:
            actor.fence()
        for peer in (*self.peers, self.scheduler):
            if peer is not actor:
                peer.fence()
        for peer in (*self.peers, self.scheduler):
            for message in peer.inbox:
                self._check(peer, message)
            peer.inbox.clear()
        open_ids = {peer.peer_id for peer in (*self.peers, self.scheduler)}
        for peer_id, request in (*self.due.codes, *self.due.values):
            if peer_id in open_ids:
                name = self.scene.transcript.known(peer_id)
                raise Breach(f"request {request} of {name} was not answered", "STO-7" if self.due.values else "STO-11")
        self.due = Due()

    def _check(self, peer: StoragePeer, message: Message) -> None:
        said = self.scene.transcript.describe(message)
        key = peer.peer_id, message.body.get("requestId", 0)
        if key in self.due.codes and message.kind == "objectReply":
            codes = self.due.codes.pop(key)
            if message["code"] not in codes:
                names = " or ".join(map(code_name, codes))
                raise Breach(f"{peer.name} was sent {said}; expected {names}", _CLAUSES.get(codes[0], "STO-11"))
        elif key in self.due.values and message.kind == "value":
            value, offset = self.due.values.pop(key)
            piece = message.payload[0]
            is_right = (message["offset"], message["totalBytes"]) == (offset, len(value))
            if not is_right or not value[offset:].startswith(piece) or (not piece and offset < len(value)):
                raise Breach(f"{peer.name} was sent {said}, which is not what was stored", "STO-13")
        elif (peer, key[1]) in self._abandoned and message.kind == "objectReply":
            self._abandoned.remove((peer, key[1]))
            if message["code"] not in (CODES.OWNER_GONE, CODES.NO_SUCH_OBJECT):
                raise Breach(f"{peer.name} was sent {said}, and that owner is gone", "OWN-4")
        else:
            clause = "STO-13" if key in self.due.codes or key in self.due.values else "STO-11"
            raise Breach(f"{peer.name} was sent {said}, which answers nothing that is due so", clause)


_CLAUSES = {CODES.OWNER_GONE: "OWN-4", CODES.BAD_CHUNK: "STO-5", CODES.NO_SUCH_OBJECT: "STO-7"}
