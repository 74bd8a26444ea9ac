"""What everybody says to a storage, in the words of cases."""

from __future__ import annotations

from typing import Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, code_name

from .conversation import ANSWER_SECONDS
from .dialer import Dialer
from .ids import new_id

CHUNK = 8 << 20


#: Of all peers that do not say otherwise, so that cases read each other's objects where there are keys.
FAMILY = new_id()


class StoragePeer(Dialer):
    """Requests have numbers; `reply` gives the answer to one of them. With keys it has the grant of every owner."""

    _requests = 0
    #: of which its grants say that the owners are in it; empty: each owner in its own
    family = FAMILY

    def granted(self, owner: bytes | None = None) -> dict[str, Any]:
        """An owner, this peer if none is named, and its grant."""
        name = owner or self.peer_id
        return {"owner": name, "grant": b"" if self.pump.key is None else self.pump.key.grant(name, self.family)}

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    def reading(self) -> dict[str, Any]:
        """For whom it reads; without keys that is not said."""
        return {} if self.pump.key is None else self.granted()

    # ------------------------------------------------------------ requests

    def new_object(self) -> bytes:
        identifier = new_id()
        self.transcript.name(identifier, "o")
        return identifier

    def put(
        self,
        identifier: bytes,
        value: bytes,
        *,
        offset: int = 0,
        total: int | None = None,
        owner: bytes | None = None,
        **named: bytes,
    ) -> int:
        """`named`: here and below, an owner and a grant instead of those that are due."""
        request = self.next_request()
        whole = offset + len(value) if total is None else total
        body = {"objectId": identifier, "totalBytes": whole, "offset": offset, **self.granted(owner), **named}
        self.send("put", payload=value, seq=None, requestId=request, **body)
        return request

    def get(self, identifier: bytes, *, offset: int = 0, chunk: int = 0, wait: float = 0.0, **named: bytes) -> int:
        request = self.next_request()
        body = {"objectId": identifier, "offset": offset, "chunkBytes": chunk, "waitSeconds": wait}
        self.send("get", payload=None, seq=None, requestId=request, **{**body, **self.reading(), **named})
        return request

    def duplicate(
        self, source: bytes, target: bytes, *, owner: bytes | None = None, wait: float = 0.0, **named: bytes
    ) -> int:
        request = self.next_request()
        names = {"source": source, "target": target, **self.granted(owner), **named}
        self.send("duplicate", payload=None, seq=None, requestId=request, waitSeconds=wait, **names)
        return request

    def release(self, *identifiers: bytes, owner: bytes | None = None, is_answered: bool = True, **named: bytes) -> int:
        request = self.next_request() if is_answered else 0
        body = {"ids": b"".join(identifiers), **self.granted(owner), **named}
        self.send("release", payload=None, seq=None, requestId=request, **body)
        return request

    def release_owner(self, owner: bytes, *, grant: bytes = b"", is_answered: bool = True) -> int:
        request = self.next_request() if is_answered else 0
        self.send("releaseOwner", requestId=request, owner=owner, grant=grant)
        return request

    def name_owners(self, *owners: bytes, offset: int = 0, total: int | None = None) -> int:
        """One part of a naming: all of it, if nothing else is said."""
        request = self.next_request()
        total = offset + len(owners) if total is None else total
        self.send("liveOwners", requestId=request, ids=b"".join(owners), offset=offset, totalCount=total)
        return request

    # ------------------------------------------------------------ answers

    def reply(self, request: int, clause: str = "STO-11", seconds: float = ANSWER_SECONDS) -> Message:
        """The one answer to this request, waited for if need be."""

        def found() -> Message | None:
            return next((message for message in self.inbox if message.body.get("requestId") == request), None)

        self.pump.until(lambda: found() is not None, seconds)
        message = found()
        if message is None:
            raise Breach(f"request {request} of {self.name} was not answered", clause)
        self.inbox.remove(message)
        return message

    def expect_code(self, request: int, *codes: int, clause: str = "", seconds: float = ANSWER_SECONDS) -> Message:
        answer = self.reply(request, clause or "STO-11", seconds)
        names = " or ".join(map(code_name, codes))
        if answer.kind != "objectReply" or answer["code"] not in codes:
            said = self.transcript.describe(answer)
            raise Breach(f"request {request} was answered {said}; expected ObjectReply {names}", clause)
        return answer

    def expect_done(self, *requests: int, clause: str = "") -> None:
        for request in requests:
            self.expect_code(request, CODES.OK, clause=clause)

    def store(self, identifier: bytes, value: bytes, *, owner: bytes | None = None, clause: str = "") -> None:
        """Put all of it, chunk by chunk, and see it confirmed."""
        offsets = range(0, len(value), CHUNK) if value else [0]
        for offset in offsets:
            piece = value[offset : offset + CHUNK]
            self.expect_done(self.put(identifier, piece, offset=offset, total=len(value), owner=owner), clause=clause)

    def fetch(self, identifier: bytes, clause: str = "STO-13") -> bytes:
        """All its bytes, however the storage cuts them."""
        gathered = b""
        while True:
            answer = self.reply(self.get(identifier, offset=len(gathered)), clause)
            if answer.kind != "value":
                said = self.transcript.describe(answer)
                raise Breach(f"a Get of an object that exists was answered {said}", clause)
            gathered += answer.payload[0]
            if len(gathered) >= answer["totalBytes"]:
                return gathered
            if not answer.payload[0]:
                raise Breach("a Value before the end of the object is empty", "STO-13")

    def is_there(self, identifier: bytes) -> bool:
        answer = self.reply(self.get(identifier))
        is_told = answer.kind == "objectReply" and answer["code"] == CODES.NO_SUCH_OBJECT
        if answer.kind != "value" and not is_told:
            clause = "STO-22" if answer.kind == "sharedValue" else "STO-7"
            said = self.transcript.describe(answer)
            raise Breach(f"a Get without acceptsShared was answered {said}; Value or NO_SUCH_OBJECT was due", clause)
        return answer.kind == "value"

    def status(self) -> Message:
        request = self.next_request()
        self.send("storageStatusRequest", requestId=request)
        answer = self.reply(request)
        if answer.kind != "storageStatus":
            raise Breach(f"a StorageStatusRequest was answered {self.transcript.describe(answer)}", "STO-11")
        return answer
