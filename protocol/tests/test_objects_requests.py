"""The pure half of ObjectClient against a told storage: what is asked, in which order, and what replies lead to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.errors import ObjectNotFound, OwnerGone, StorageError, StorageFull, StorageUnavailable
from scaler_protocol.ids import ObjectId, Owner, PeerId
from scaler_protocol.messages import (
    Duplicate,
    Get,
    MemoryFile,
    ObjectReply,
    Put,
    PutShared,
    Release,
    SharedValue,
    StorageStatus,
    Value,
)
from scaler_protocol.objects.operations import (
    CHUNK_BYTES,
    JOINED_BYTES,
    RELEASED_IDS,
    WAITING_CHUNK_BYTES,
    DuplicateOperation,
    GetOperation,
    MeetOperation,
    NotShared,
    PutOperation,
    PutSharedOperation,
    ReleaseOperation,
    StatusOperation,
    plan_chunks,
)
from scaler_protocol.objects.requests import OPEN_CHUNKS, SESSIONS_LOST, ObjectRequests

OBJECT = ObjectId(b"o" * 16)
OTHER = ObjectId(b"p" * 16)
THIRD = ObjectId(b"q" * 16)
OWNER = Owner(PeerId(b"c" * 16))
TIMEOUT = 60.0


class Told:
    """A table of requests, a clock, and replies by hand; counts are checked after every step."""

    def __init__(self) -> None:
        self.requests = ObjectRequests("tcp://here:1", TIMEOUT)
        self.now = 100.0
        self.requests.opened(self.now)

    def begin(self, operation):
        self.requests.begin(operation, self.now)
        return operation

    def asked(self):
        taken = self.requests.take_requests(self.now)
        self.requests.check()
        return taken

    def reply(self, message):
        self.requests.receive(message, self.now)
        self.requests.check()

    def confirm(self, *requests, code=codes.OK):
        for request in requests:
            self.reply(ObjectReply(request.request_id, code, "because" if code else ""))

    def answer(self, request, value, most=CHUNK_BYTES):
        chunk = value[request.offset : request.offset + min(request.chunk_bytes, most)]
        self.reply(Value(request.request_id, len(value), request.offset, chunk))

    def later(self, seconds):
        self.now += seconds
        self.requests.expire(self.now)


@pytest.fixture
def told():
    return Told()


def test_a_put_sends_what_the_window_allows_and_ends_with_the_last_confirmation(told):
    data = memoryview(bytes(CHUNK_BYTES))
    put = told.begin(PutOperation(OBJECT, OWNER, [data] * 10))
    first = told.asked()
    assert [request.offset for request in first] == [index * CHUNK_BYTES for index in range(OPEN_CHUNKS)]
    assert all(type(r) is Put and r.total_bytes == 10 * CHUNK_BYTES and r.owner == OWNER.peer_id for r in first)
    assert told.asked() == []
    told.confirm(first[0])
    (ninth,) = told.asked()
    told.confirm(*first[1:], ninth)
    assert not put.is_done
    told.confirm(*told.asked())
    assert put.is_done and put.error is None and not told.requests.operations


def test_chunks_are_views_of_what_was_given():
    data = bytearray(CHUNK_BYTES + 5)
    assert [chunk.obj is data for _, chunk in plan_chunks([data])] == [True, True]


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.sampled_from([0, 1, 100, JOINED_BYTES - 1, JOINED_BYTES, CHUNK_BYTES + 3]), max_size=8))
def test_chunks_are_the_buffers_in_order(sizes):
    buffers = [bytes([index]) * size for index, size in enumerate(sizes)]
    chunks = list(plan_chunks(buffers))
    assert b"".join(chunk for _, chunk in chunks) == b"".join(buffers)
    position = 0
    for offset, chunk in chunks:
        assert offset == position and len(chunk) <= CHUNK_BYTES
        position += len(chunk)
    assert len(chunks) == 1 or all(len(chunk) for _, chunk in chunks), "only an empty value has an empty chunk"


def test_operations_take_turns(told):
    told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 20))
    told.begin(PutOperation(OTHER, OWNER, [b"small"]))
    asked = [request.object_id for request in told.asked()]
    assert asked == [OBJECT, OTHER] + [OBJECT] * 6


def test_a_full_window_holds_up_chunks_only(told):
    told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 20))
    told.asked()
    told.begin(GetOperation(OTHER, 0.0))
    status = told.begin(StatusOperation())
    (request,) = told.asked()
    told.reply(StorageStatus(request.request_id, object_count=7))
    assert status.status.object_count == 7


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (codes.STORAGE_FULL, StorageFull),
        (codes.OWNER_GONE, OwnerGone),
        (codes.TOO_LARGE, StorageError),
        (9999, StorageError),
    ],
)
def test_a_refused_put_fails_at_its_first_refusal(told, code, error):
    put = told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 3))
    first, second, third = told.asked()
    told.confirm(first)
    told.confirm(second, code=code)
    assert type(put.error) is error and put.error.code == code
    told.confirm(third)
    assert told.asked() == []


def test_an_upload_that_the_storage_dropped_begins_again_once(told):
    put = told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 3))
    first, second, third = told.asked()
    told.confirm(first)
    told.confirm(second, code=codes.BAD_CHUNK)
    again = told.asked()
    assert [request.offset for request in again] == [0, CHUNK_BYTES, 2 * CHUNK_BYTES]
    told.confirm(third, code=codes.BAD_CHUNK)  # an answer to the attempt before: means nothing
    assert not put.is_done
    told.confirm(again[0], code=codes.BAD_CHUNK)
    assert isinstance(put.error, StorageError) and put.error.code == codes.BAD_CHUNK


@given(size=st.sampled_from([0, 1, 5, 1000]), most=st.integers(1, 400))
def test_a_get_puts_together_whatever_pieces_come(size, most):
    told = Told()
    value = bytes(range(256)) * 4
    value = value[:size]
    get = told.begin(GetOperation(OBJECT, 0.0))
    for _ in range(2000):
        if get.is_done:
            break
        for request in told.asked():
            told.answer(request, value, most)
    assert get.error is None and get.value == value


def test_the_rest_of_a_large_value_is_asked_for_side_by_side(told):
    value = bytes(3 * CHUNK_BYTES + 10)
    get = told.begin(GetOperation(OBJECT, 0.0))
    (first,) = told.asked()
    assert first == Get(first.request_id, OBJECT, 0, CHUNK_BYTES, 0.0)
    told.answer(first, value)
    rest = told.asked()
    assert [(r.offset, r.chunk_bytes) for r in rest] == [
        (CHUNK_BYTES, CHUNK_BYTES),
        (2 * CHUNK_BYTES, CHUNK_BYTES),
        (3 * CHUNK_BYTES, 10),
    ]
    for request in reversed(rest):
        told.answer(request, value)
    assert get.value == value


def test_a_get_waits_only_when_it_must_and_then_asks_for_little(told):
    value = bytes(100_000)
    get = told.begin(GetOperation(OBJECT, 30.0))
    told.confirm(*told.asked(), code=codes.NO_SUCH_OBJECT)
    told.now += 10.0
    (waiting,) = told.asked()
    assert waiting == Get(waiting.request_id, OBJECT, 0, WAITING_CHUNK_BYTES, 20.0)
    told.answer(waiting, value)
    (rest,) = told.asked()
    assert (rest.offset, rest.wait_seconds) == (WAITING_CHUNK_BYTES, 0.0)
    told.answer(rest, value)
    assert get.value == value


def test_a_wait_that_is_over_is_over(told):
    get = told.begin(GetOperation(OBJECT, 30.0))
    told.confirm(*told.asked(), code=codes.NO_SUCH_OBJECT)
    asked = told.asked()
    told.now += 30.0
    told.confirm(*asked, code=codes.NO_SUCH_OBJECT)
    assert isinstance(get.error, ObjectNotFound)


def test_waiting_gets_are_not_counted(told):
    gets = [told.begin(GetOperation(OBJECT, 30.0)) for _ in range(20)]
    for _ in range(3):
        told.confirm(*[r for r in told.asked() if not r.wait_seconds], code=codes.NO_SUCH_OBJECT)
    assert all(request.wait_seconds for request in told.asked())
    told.begin(PutOperation(OTHER, OWNER, [b"x"]))
    assert [type(request) for request in told.asked()] == [Put]
    assert not any(get.is_done for get in gets)


@pytest.mark.parametrize(
    "reply",
    [
        Value(1, 10, 5, b"12345"),  # another offset
        Value(1, 10, 0, b""),  # no progress
        Value(1, 3, 0, b"12345"),  # more than there is
        ObjectReply(1),
        StorageStatus(1),
    ],
)
def test_nonsense_from_a_storage_is_an_error(told, reply):
    get = told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.reply(reply)
    assert isinstance(get.error, StorageError) and "version" in str(get.error)


def test_a_value_that_fits_nowhere(told):
    get = told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.reply(Value(1, 1 << 63, 0, b"x"))
    assert "does not fit" in str(get.error)


def test_after_a_lost_session_everything_open_is_asked_again(told):
    put = told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 2))
    get = told.begin(GetOperation(OTHER, 0.0))
    duplicate = told.begin(DuplicateOperation(OBJECT, OTHER, OWNER, 5.0))
    release = told.begin(ReleaseOperation(OWNER, [THIRD]))
    before = told.asked()
    value = bytes(2 * CHUNK_BYTES)
    told.confirm(next(r for r in before if type(r) is Put))
    told.answer(next(r for r in before if type(r) is Get), value)
    told.requests.lost("gone", told.now)
    assert told.asked() == [], "nothing without a session"
    told.now += 2.0
    told.requests.opened(told.now)
    again = told.asked()
    assert sorted((type(r).__name__, getattr(r, "offset", 0)) for r in again) == [
        ("Duplicate", 0),
        ("Get", CHUNK_BYTES),  # the half that has come is kept
        ("Put", 0),
        ("Put", CHUNK_BYTES),
        ("Release", 0),
    ]
    assert next(r for r in again if type(r) is Duplicate).wait_seconds == 3.0
    told.reply(ObjectReply(before[0].request_id, codes.STORAGE_FULL, "an answer from the past"))
    for request in again:
        if type(request) is Get:
            told.answer(request, value)
        else:
            told.confirm(request)
    assert [operation.error for operation in (put, get, duplicate, release)] == [None] * 4
    assert all(operation.is_done for operation in (put, get, duplicate, release))


def test_an_operation_that_loses_session_after_session_fails(told):
    put = told.begin(PutOperation(OBJECT, OWNER, [b"poison"]))
    for _ in range(SESSIONS_LOST):
        assert not put.is_done
        told.asked()
        told.requests.lost("too much", told.now)
        told.requests.opened(told.now)
    assert isinstance(put.error, StorageUnavailable) and "too much" in str(put.error)


def test_silence_is_an_error_after_the_timeout(told):
    get = told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    assert told.requests.next_deadline() == told.now + TIMEOUT
    told.later(TIMEOUT - 1)
    assert not get.is_done
    told.later(1)
    assert isinstance(get.error, StorageUnavailable) and "has not answered for 60 s" in str(get.error)


def test_once_the_storage_was_waited_for_in_vain_nothing_waits_again(told):
    """Until it answers. Every call of a program once waited for the whole timeout by itself."""
    told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.requests.lost("it is gone", told.now)
    told.later(TIMEOUT)
    late = told.begin(PutOperation(OBJECT, OWNER, [b"x"]))
    assert isinstance(late.error, StorageUnavailable) and "no object storage answers" in str(late.error)
    told.requests.opened(told.now)
    again = told.begin(PutOperation(OBJECT, OWNER, [b"x"]))
    assert not again.is_done and len(told.asked()) == 1


def test_a_session_that_ended_by_silence_is_no_sign_of_life(told):
    get = told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.now += TIMEOUT
    told.requests.lost("no sign of it", told.now, silent_seconds=TIMEOUT)
    told.later(0.0)
    assert isinstance(get.error, StorageUnavailable)


def test_a_storage_that_is_slow_in_an_open_session_is_not_gone(told):
    told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.later(TIMEOUT)
    assert not told.begin(GetOperation(OBJECT, 0.0)).is_done


def test_while_this_process_was_stopped_no_operation_has_waited(told):
    get = told.begin(GetOperation(OBJECT, 0.0))
    told.asked()
    told.now += 10 * TIMEOUT
    told.requests.was_stopped(told.now)
    told.later(TIMEOUT / 2)
    assert not get.is_done
    told.later(TIMEOUT)
    assert isinstance(get.error, StorageUnavailable)


def test_silence_while_waiting_is_no_error(told):
    get = told.begin(GetOperation(OBJECT, 1000.0))
    told.confirm(*told.asked(), code=codes.NO_SUCH_OBJECT)
    told.asked()
    told.later(1000.0)
    assert not get.is_done
    told.later(TIMEOUT)
    assert isinstance(get.error, StorageUnavailable)


def test_no_session_is_an_error_after_the_timeout_even_while_waiting(told):
    get = told.begin(GetOperation(OBJECT, 1000.0))
    told.confirm(*told.asked(), code=codes.NO_SUCH_OBJECT)
    told.asked()
    told.now += 500.0
    told.requests.lost("gone", told.now)
    told.later(TIMEOUT - 1)
    assert not get.is_done
    told.later(1)
    assert "running there" in str(get.error)


def test_an_interrupted_call_leaves_nothing_behind(told):
    put = told.begin(PutOperation(OBJECT, OWNER, [bytes(CHUNK_BYTES)] * 9))
    asked = told.asked()
    told.requests.abandon(put)
    assert told.asked() == [] and told.requests.next_deadline() is None
    told.confirm(*asked)
    assert len(told.begin(PutOperation(OTHER, OWNER, [bytes(CHUNK_BYTES)] * 9)) and told.asked()) == OPEN_CHUNKS


def test_very_many_ids_are_released_in_parts(told):
    release = told.begin(ReleaseOperation(OWNER, [OBJECT] * (RELEASED_IDS + 1)))
    parts = told.asked()
    assert [(type(part), len(part.ids)) for part in parts] == [(Release, 16 * RELEASED_IDS), (Release, 16)]
    told.confirm(parts[0])
    assert not release.is_done
    told.confirm(parts[1])
    assert release.is_done


class Offered:
    """An open memory file."""

    file = MemoryFile(1, 2, b"n" * 16)

    def reference(self):
        return self.file


def put_shared(told):
    return told.begin(PutSharedOperation(OBJECT, OWNER, 5, Offered()))


def test_a_file_is_put_by_one_request_that_needs_no_room(told):
    for _ in range(OPEN_CHUNKS):
        told.begin(PutOperation(OTHER, OWNER, [b"x"]))
    operation = put_shared(told)
    (request,) = [asked for asked in told.asked() if isinstance(asked, PutShared)]
    assert request == PutShared(request.request_id, OBJECT, OWNER.peer_id, 5, Offered.file)
    told.confirm(request)
    assert operation.is_done and operation.error is None


@pytest.mark.parametrize(
    ("code", "error"), [(codes.UNREADABLE_FILE, NotShared), (codes.STORAGE_FULL, StorageFull), (477, StorageError)]
)
def test_a_file_that_is_refused(told, code, error):
    operation = put_shared(told)
    told.confirm(*told.asked(), code=code)
    assert type(operation.error) is error


def test_a_file_is_never_offered_to_another_session(told):
    """That one may be without the feature (STO-24)."""
    begun = put_shared(told)
    told.asked()
    told.requests.lost("gone", told.now)
    late = put_shared(told)
    told.requests.opened(told.now)
    assert told.asked() == [] and not told.requests.operations
    assert type(begun.error) is type(late.error) is NotShared


def test_a_put_in_another_way_does_not_begin_its_patience_anew(told):
    """A storage was killed while it was offered a file: its writer waited twice."""
    offered = put_shared(told)
    told.asked()
    told.now += TIMEOUT / 2
    told.requests.lost("no sign of it", told.now, silent_seconds=TIMEOUT / 2)
    assert type(offered.error) is NotShared
    put = told.begin(PutOperation(OBJECT, OWNER, [b"x"]).in_place_of(offered))
    told.later(TIMEOUT / 2 - 1)
    assert not put.is_done
    told.later(1)
    assert isinstance(put.error, StorageUnavailable)


def test_a_get_in_another_way_does_not_begin_its_wait_anew(told):
    get = told.begin(GetOperation(OBJECT, 30.0, lambda: True))
    (request,) = told.asked()
    told.now += 10.0
    told.reply(SharedValue(request.request_id, 5, Offered.file))
    told.begin(get.without_sharing())
    told.confirm(*told.asked(), code=codes.NO_SUCH_OBJECT)
    (waiting,) = told.asked()
    assert waiting.wait_seconds == 20.0


def test_a_value_may_be_a_file(told):
    operation = told.begin(GetOperation(OBJECT, 0.0, lambda: True))
    (request,) = told.asked()
    assert request.accepts_shared
    answer = SharedValue(request.request_id, 5, Offered.file)
    told.reply(answer)
    assert operation.is_done and operation.shared == answer and operation.value is None
    assert operation.without_sharing().next_request(1, told.now, True) == Get(1, OBJECT, 0, CHUNK_BYTES)


def test_a_file_is_welcome_instead_of_the_first_chunk_only(told):
    operation = told.begin(GetOperation(OBJECT, 0.0, lambda: True))
    (first,) = told.asked()
    told.answer(first, bytes(CHUNK_BYTES + 1))
    (second,) = told.asked()
    assert not second.accepts_shared
    told.reply(SharedValue(second.request_id, CHUNK_BYTES + 1, Offered.file))
    assert type(operation.error) is StorageError


def test_a_file_that_was_not_asked_for_is_nonsense(told):
    operation = told.begin(GetOperation(OBJECT, 0.0))
    (request,) = told.asked()
    told.reply(SharedValue(request.request_id, 5, Offered.file))
    assert type(operation.error) is StorageError


def test_meeting_needs_a_session_and_no_request():
    requests = ObjectRequests("tcp://here:1", TIMEOUT)
    operation = MeetOperation()
    requests.begin(operation, 1.0)
    assert requests.take_requests(1.0) == [] and not operation.is_done
    requests.opened(2.0)
    assert requests.take_requests(2.0) == [] and operation.is_done and not requests.operations
