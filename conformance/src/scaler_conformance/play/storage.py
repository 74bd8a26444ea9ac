"""The storage that the suite plays: whole objects in memory, and a record of who asked what."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message

from . import memory_file
from .host import Guest, Host
from .memory_file import Directory, MemoryFile
from .samples import may_send

CHUNK_BYTES = 8 << 20
#: What names an owner, and whose duty it is to show a grant for that.
_NAMES = frozenset({"put", "putShared", "get", "duplicate", "release"})
_NAMING = {CODES.ROLE_CLIENT: "CLI-19", CODES.ROLE_WORKER: "WRK-31"}


class StorageHost(Host):
    role = "storage"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.features = frozenset({"live-owners"})
        self.values: dict[bytes, bytes] = {}
        self.owners: dict[bytes, set[bytes]] = {}
        #: for cases: what each user may have, and what the user has to whom each of these owners belongs
        self.user_limit = 0
        self.user_bytes: dict[bytes, int] = {}
        #: every request, with who made it
        self.requests: list[tuple[Guest, Message]] = []
        #: for cases of shared memory: answer every PutShared with UNREADABLE_FILE …
        self.refuses_files = False
        #: … and tell of this file instead of the one with the value
        self.false_file: Callable[[bytes], dict[str, Any]] | None = None
        #: … and name this directory in the Welcome, with the size and descriptor that are said here of each new object
        self.directory: Directory | None = None
        self.listed: Callable[[bytes], tuple[int, int]] | None = None
        self._files: list[MemoryFile] = []
        #: for cases: leave these kinds without an answer
        self.unanswered: set[str] = set()
        #: for cases: answer a Get with no more than this
        self.piece_bytes = CHUNK_BYTES
        self._uploads: dict[tuple[int, bytes], bytearray] = {}
        #: what their first chunks said: totalBytes and owner
        self._promised: dict[tuple[int, bytes], tuple[int, bytes]] = {}
        #: uploads that are compared with an object that exists, and are not the same so far
        self._unlike: set[tuple[int, bytes]] = set()
        self._waiting: list[tuple[Guest, Message]] = []

    def close(self) -> None:
        super().close()
        for file in self._files:
            file.close()

    def welcome(self, hello: Message) -> dict[str, Any]:
        return {} if self.directory is None else {"directory": self.directory.told}

    def may_send(self, role: str) -> frozenset[str]:
        return frozenset(may_send("storage", role))

    def on_message(self, guest: Guest, message: Message) -> None:
        self.requests.append((guest, message))
        if guest.checks_laws:
            self._check_grants(guest, message)
        if message.kind not in self.unanswered:
            self._answer(guest, message)

    def _check_grants(self, guest: Guest, message: Message) -> None:
        """Whose objects a dialer reads is for cases to say: every dialer reads the suite's own functions."""
        key, clause = self.pump.key, _NAMING.get(guest.hello["role"])
        if key is None or clause is None or message.kind not in _NAMES:
            return
        pairs = [("owner", "grant")]
        if message.kind == "duplicate" and message["sourceOwner"]:
            pairs.append(("sourceOwner", "sourceGrant"))
        for owner, grant in pairs:
            if not key.is_grant(message[grant], message[owner]):
                name = self.transcript.known(message[owner]) if message[owner] else "no owner"
                raise Breach(f"{guest.name} sent a {message.kind} that names {name}, and not with its grant", clause)

    def asked(self, kind: str) -> list[Message]:
        return [message for _, message in self.requests if message.kind == kind]

    def begin_again(self) -> None:
        """Another life of this storage: it remembers nothing, neither objects nor sessions."""
        self.values.clear()
        self.owners.clear()
        self._uploads.clear()
        self._waiting.clear()
        self.forget_everybody()

    def store(self, identifier: bytes, value: bytes, owner: bytes) -> None:
        self.values[identifier] = value
        if self.directory is not None and self.listed is not None:
            self.directory.enter(identifier, *self.listed(identifier))
        self.owners.setdefault(identifier, set()).add(owner)
        waiting, self._waiting = self._waiting, []
        for guest, message in waiting:
            self._answer(guest, message)

    def release(self, identifier: bytes, owner: bytes) -> None:
        owners = self.owners.get(identifier, set())
        owners.discard(owner)
        if not owners:
            self.owners.pop(identifier, None)
            self.values.pop(identifier, None)

    # ------------------------------------------------------------ answers

    def _answer(self, guest: Guest, message: Message) -> None:
        getattr(self, f"_on_{message.kind}")(guest, message)

    def _reply(self, guest: Guest, message: Message, code: int = 0, text: str = "") -> None:
        if message["requestId"] and guest.is_open:
            guest.send("objectReply", requestId=message["requestId"], code=code, text=text)

    def _on_put(self, guest: Guest, message: Message) -> None:
        identifier, chunk = message["objectId"], message.payload[0]
        if len(chunk) > CHUNK_BYTES:
            raise Breach(f"{guest.name} puts a chunk of {len(chunk)} bytes; {CHUNK_BYTES} are the most", "STO-6")
        if identifier in self.values:
            self._put_again(guest, message, chunk, message["offset"])
            return
        key = (guest.session_id, identifier)
        if message["offset"] == 0:
            self._uploads[key] = bytearray()
            self._promised[key] = (message["totalBytes"], message["owner"])
        elif self._promised.get(key, message) not in (message, (message["totalBytes"], message["owner"])):
            raise Breach(f"{guest.name} puts a chunk whose totalBytes or owner is not that of the first", "STO-5")
        upload = self._uploads.get(key)
        if upload is None or len(upload) != message["offset"]:
            self._uploads.pop(key, None)
            self._reply(guest, message, CODES.BAD_CHUNK, "chunks come in order")
            return
        upload += chunk
        if len(upload) == message["totalBytes"]:
            self.store(identifier, bytes(self._uploads.pop(key)), message["owner"])
        self._reply(guest, message)

    def _put_again(self, guest: Guest, message: Message, chunk: bytes, offset: int = 0) -> None:
        """STO-4, STO-30, SEC-17. Chunks are compared one by one; the answer to the last one tells the result."""
        identifier, owner, value = message["objectId"], message["owner"], self.values[message["objectId"]]
        key = (guest.session_id, identifier)
        if offset == 0:
            self._unlike.discard(key)
        if message["totalBytes"] != len(value) or not value[offset:].startswith(chunk):
            self._unlike.add(key)
        is_owner = owner in self.owners.get(identifier, ())
        if offset + len(chunk) < message["totalBytes"] or is_owner:
            self._reply(guest, message)
        elif key in self._unlike:
            self._reply(guest, message, CODES.EXISTS, "the object exists with other bytes")
        else:
            self.store(identifier, value, owner)
            self._reply(guest, message)

    def _on_putShared(self, guest: Guest, message: Message) -> None:  # noqa: N802  named for the member of the union
        _must_share(guest, "PutShared")
        value, trouble = memory_file.read(message["file"], message["totalBytes"])
        if trouble:
            raise Breach(f"{guest.name} shares what is no sealed memory file: {trouble}", "STO-19")
        if self.refuses_files:
            self._reply(guest, message, CODES.UNREADABLE_FILE, "put it in chunks")
        elif message["objectId"] in self.values:
            self._put_again(guest, message, value)
        else:
            self.store(message["objectId"], value, message["owner"])
            self._reply(guest, message)

    def _on_get(self, guest: Guest, message: Message) -> None:
        value = self.values.get(message["objectId"])
        if message["acceptsShared"]:
            _must_share(guest, "a Get with `acceptsShared`")
        if value is None:
            self._without(guest, message)
        elif message["acceptsShared"] and guest.is_open:
            self._share(guest, message, value)
        elif message["offset"] > len(value):
            self._reply(guest, message, CODES.BAD_CHUNK, "the object is shorter")
        elif guest.is_open:
            piece = value[message["offset"] :][: min(message["chunkBytes"] or CHUNK_BYTES, self.piece_bytes)]
            requested, offset = message["requestId"], message["offset"]
            guest.send("value", payload=piece, requestId=requested, totalBytes=len(value), offset=offset)

    def _share(self, guest: Guest, message: Message, value: bytes) -> None:
        if self.false_file is not None:
            told = self.false_file(value)
        else:
            self._files.append(MemoryFile(value))
            told = self._files[-1].told()
        guest.send("sharedValue", requestId=message["requestId"], totalBytes=len(value), file=told)

    def _without(self, guest: Guest, message: Message) -> None:
        if message["waitSeconds"]:
            self._waiting.append((guest, message))
        else:
            self._reply(guest, message, CODES.NO_SUCH_OBJECT, "there is no such object")

    def _on_duplicate(self, guest: Guest, message: Message) -> None:
        value = self.values.get(message["source"])
        if value is None:
            self._without(guest, message)
        else:
            self.store(message["target"], value, message["owner"])
            self._reply(guest, message)

    def _on_release(self, guest: Guest, message: Message) -> None:
        for at in range(0, len(message["ids"]), 16):
            self.release(message["ids"][at : at + 16], message["owner"])
        self._reply(guest, message)

    def _on_releaseOwner(self, guest: Guest, message: Message) -> None:  # noqa: N802
        for identifier in list(self.owners):
            self.release(identifier, message["owner"])
        self._reply(guest, message)

    def _on_liveOwners(self, guest: Guest, message: Message) -> None:  # noqa: N802
        if "live-owners" not in guest.features:
            raise Breach(f"{guest.name} sent LiveOwners in a session without the feature `live-owners`", "HSK-6")
        self._reply(guest, message)

    def _on_storageStatusRequest(self, guest: Guest, message: Message) -> None:  # noqa: N802
        guest.send(
            "storageStatus",
            requestId=message["requestId"],
            objectCount=len(self.values),
            ownerCount=len({owner for owners in self.owners.values() for owner in owners}),
            memoryBytes=sum(map(len, self.values.values())),
            **self._owned(message["owners"] if guest.role == "scheduler" else b""),
            userLimitBytes=self.user_limit,
            largest=self._largest(message["largestCount"] if guest.role == "scheduler" else 0),
        )

    def _largest(self, count: int) -> list[dict[str, Any]]:
        sizes = {one: len(value) for one, value in self.values.items() if len(value) >= 2**16}
        large = sorted(sizes, key=sizes.__getitem__, reverse=True)
        return [
            {
                "objectId": one,
                "owner": next(iter(self.owners[one])),
                "ownerCount": len(self.owners[one]),
                "totalBytes": sizes[one],
            }
            for one in large[: min(count, 100)]
        ]

    def _owned(self, column: bytes) -> dict[str, Any]:
        owners = [column[at : at + 16] for at in range(0, len(column), 16)]
        owned = [[one for one, its_owners in self.owners.items() if owner in its_owners] for owner in owners]
        counts, sizes = map(len, owned), (sum(len(self.values[one]) for one in ids) for ids in owned)
        packing = struct.Struct(f"<{len(owners)}Q")
        told = {"ownerObjects": packing.pack(*counts), "ownerBytes": packing.pack(*sizes)}
        if self.user_limit:
            told["ownerUserBytes"] = packing.pack(*(self.user_bytes.get(owner, 0) for owner in owners))
        return told


def _must_share(guest: Guest, what: str) -> None:
    if "memfd" not in guest.features:
        raise Breach(f"{guest.name} sent {what} in a session without the feature `memfd`", "STO-24")
