"""Put, Get, Duplicate, Release and who owns what (chapters 12 and 13)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import CHUNK
from scaler_conformance.play.ids import content_id, new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("storage")
GONE, BAD_CHUNK, NO_SUCH = CODES.OWNER_GONE, CODES.BAD_CHUNK, CODES.NO_SUCH_OBJECT


@case("STO-3", "STO-13", "STO-11")
def what_is_put_is_what_comes_back(scene: Scene) -> None:
    peer = scene.requester()
    for value in (b"", b"x", b"hello" * 1000, bytes(range(256)) * 4096):
        identifier = peer.new_object()
        peer.store(identifier, value)
        scene.check(peer.fetch(identifier) == value, f"an object of {len(value)} bytes came back changed", "STO-13")
    other = scene.requester("worker")
    scene.check(other.is_there(identifier), "another session does not see the object", "STO-3")


@case("STO-3")
def an_object_is_not_visible_before_its_last_byte(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    identifier = peer.new_object()
    for offset in (0, 100, 200):
        peer.expect_done(peer.put(identifier, b"a" * 100, offset=offset, total=301))
        scene.check(not other.is_there(identifier), f"{offset + 100} of 301 bytes are there, and it can be fetched")
    waiting = other.get(identifier, wait=20)
    other.fence()
    other.expect_nothing("a byte is missing")
    peer.expect_done(peer.put(identifier, b"z", offset=300, total=301))
    answer = other.reply(waiting, "STO-3")
    scene.equal((answer.kind, answer.body.get("totalBytes")), ("value", 301), "the answer to the Get that waited")
    scene.check(peer.fetch(identifier) == b"a" * 300 + b"z", "the chunks were joined wrongly")


@case("STO-3")
def an_empty_object_is_made_by_one_put(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b""))
    answer = peer.reply(peer.get(identifier))
    scene.equal((answer.kind, answer.body.get("totalBytes"), answer.payload), ("value", 0, (b"",)), "the answer")


@case("STO-13")
def a_value_is_what_was_asked_for(scene: Scene) -> None:
    peer = scene.requester()
    identifier, value = peer.new_object(), bytes(range(250)) * 40
    peer.store(identifier, value)
    for offset, chunk in ((0, 0), (0, 1), (0, 10_000), (0, 20_000), (5000, 7), (9_999, 100), (10_000, 5), (3, 0)):
        answer = peer.reply(peer.get(identifier, offset=offset, chunk=chunk))
        if answer.kind != "value":
            scene.fail(f"a Get was answered {scene.transcript.describe(answer)}")
        piece = answer.payload[0]
        asked = f"asked for {chunk} bytes from {offset} of {len(value)}"
        scene.equal(answer["offset"], offset, f"offset of the Value, {asked}")
        scene.equal(answer["totalBytes"], len(value), f"totalBytes, {asked}")
        scene.check(len(piece) <= (chunk or CHUNK), f"{asked}, got {len(piece)}")
        scene.check(bool(piece) or offset == len(value), f"{asked}, got nothing")
        scene.check(value[offset:].startswith(piece), f"{asked}, got other bytes")


@case("STO-13")
def a_value_has_at_most_eight_mebibytes(scene: Scene) -> None:
    peer = scene.requester()
    identifier, value = peer.new_object(), bytes((12 << 20) + 5)
    peer.store(identifier, value)
    for chunk in (0, 16 << 20):
        answer = peer.reply(peer.get(identifier, chunk=chunk))
        scene.check(0 < len(answer.payload[0]) <= CHUNK, f"a Value has {len(answer.payload[0])} bytes")
    scene.check(peer.fetch(identifier) == value, "an object of 12 MiB came back changed")


@case("STO-14")
def beyond_the_end_is_a_bad_chunk(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, b"ten bytes!")
    for offset in (11, 1 << 40, (1 << 64) - 1):
        peer.expect_code(peer.get(identifier, offset=offset), BAD_CHUNK)
    answer = peer.reply(peer.get(identifier, offset=10))
    scene.equal((answer.kind, answer.payload), ("value", (b"",)), "the answer at the end", "STO-13")


@case("STO-7", "STO-13")
def what_does_not_exist_is_told_at_once_or_waited_for(scene: Scene) -> None:
    peer, writer = scene.requester(), scene.requester()
    here, never = peer.new_object(), peer.new_object()
    peer.expect_code(peer.get(never), NO_SUCH)
    peer.expect_code(peer.duplicate(never, here), NO_SUCH)
    first, second = peer.get(here, wait=20), writer.get(here, wait=20)
    copy = peer.new_object()
    third = peer.duplicate(here, copy, wait=20)
    scene.settle(peer, writer)
    peer.expect_nothing("nothing is there yet")
    writer.store(here, b"now")
    for who, request in ((peer, first), (writer, second)):
        answer = who.reply(request, "STO-7")
        scene.equal((answer.kind, answer.payload), ("value", (b"now",)), "the answer to a Get that waited")
    peer.expect_done(third, clause="STO-7")
    scene.check(peer.fetch(copy) == b"now", "the duplicate has other bytes", "STO-9")


@case("STO-30", "OWN-1")
def a_put_of_what_exists_adds_its_owner(scene: Scene) -> None:
    one, two = scene.requester(), scene.requester()
    identifier = one.new_object()
    one.store(identifier, b"first")
    two.expect_done(two.put(identifier, b"first"))
    scene.check(one.fetch(identifier) == b"first", "the value was replaced", "STO-4")
    one.expect_done(one.release(identifier))
    scene.check(two.is_there(identifier), "an owner is left, and the object is gone", "OWN-1")
    two.expect_done(two.release(identifier))
    scene.check(not two.is_there(identifier), "no owner is left, and the object is there", "OWN-3")


@case("STO-5")
def chunks_out_of_order_end_the_upload(scene: Scene) -> None:
    peer = scene.requester()
    for name, offset, total, owner in (
        ("a gap", 20, 30, None),
        ("an overlap", 5, 30, None),
        ("another total", 10, 31, None),
        ("another owner", 10, 30, new_id()),
        ("beyond the total", 10, 15, None),
    ):
        identifier = peer.new_object()
        scene.transcript.note(peer.name, name)
        peer.expect_done(peer.put(identifier, b"a" * 10, total=30))
        peer.expect_code(peer.put(identifier, b"b" * 10, offset=offset, total=total, owner=owner), BAD_CHUNK)
        peer.expect_code(peer.put(identifier, b"c" * 20, offset=10, total=30), BAD_CHUNK)
        scene.check(not peer.is_there(identifier), "a broken upload became an object", "STO-3")
        peer.store(identifier, b"anew")
    peer.expect_code(peer.put(peer.new_object(), b"x", offset=5, total=6), BAD_CHUNK)


@case("STO-6")
def a_chunk_of_more_than_eight_mebibytes_is_refused(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.expect_code(peer.put(identifier, bytes(CHUNK + 1)), BAD_CHUNK)
    scene.check(not peer.is_there(identifier), "the chunk was kept all the same")
    peer.store(identifier, bytes(CHUNK))


@case("STO-8")
def a_new_upload_replaces_an_unfinished_one(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b"a" * 10, total=30))
    peer.expect_done(peer.put(identifier, b"b" * 10, total=20))
    peer.expect_done(peer.put(identifier, b"c" * 10, offset=10, total=20))
    scene.check(peer.fetch(identifier) == b"b" * 10 + b"c" * 10, "bytes of the first upload are in the object")


@case("STO-8", "STO-16")
def an_unfinished_upload_ends_with_its_session(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b"a" * 10, total=30))
    peer.leave()
    peer.inbox.clear()
    peer.checks_laws = True
    peer.incarnation += 1
    peer.open()
    peer.expect_code(peer.put(identifier, b"b" * 20, offset=10, total=30), BAD_CHUNK)
    scene.check(not other.is_there(identifier), "the upload survived its session", "STO-3")


@case("STO-8")
def an_unfinished_upload_ends_with_its_owner(scene: Scene) -> None:
    peer, scheduler = scene.requester(), scene.requester("scheduler")
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b"a" * 10, total=30))
    scheduler.expect_done(scheduler.release_owner(peer.peer_id))
    peer.expect_code(peer.put(identifier, b"b" * 20, offset=10, total=30), GONE, BAD_CHUNK)
    scene.check(not peer.is_there(identifier), "the upload survived its owner", "OWN-4")


@case("STO-10")
def uploads_of_different_sessions_are_kept_apart(scene: Scene) -> None:
    one, two, reader = scene.requester(), scene.requester(), scene.requester()
    identifier = one.new_object()
    one.expect_done(one.put(identifier, b"1" * 10, total=30))
    two.expect_done(two.put(identifier, b"2" * 10, total=20))
    scene.check(not reader.is_there(identifier), "two halves became an object", "STO-3")
    two.expect_done(two.put(identifier, b"2" * 10, offset=10, total=20))
    scene.check(reader.fetch(identifier) == b"2" * 20, "the object is not that of the first complete upload")
    late = one.put(identifier, b"1" * 20, offset=10, total=30)
    one.expect_code(late, CODES.EXISTS, BAD_CHUNK, clause="STO-10")  # its first chunk was not compared (STO-30)
    scene.check(reader.fetch(identifier) == b"2" * 20, "a later upload replaced the object", "STO-4")


@case("STO-10", "STO-4")
def uploads_of_one_owner_need_not_be_equal(scene: Scene) -> None:
    one, two, owner = scene.requester(), scene.requester(), new_id()
    scene.owners.add(owner)
    identifier = one.new_object()
    one.expect_done(one.put(identifier, b"1" * 10, total=20, owner=owner))
    two.expect_done(two.put(identifier, b"2" * 20, owner=owner))
    one.expect_done(one.put(identifier, b"1" * 10, offset=10, total=20, owner=owner), clause="STO-10")
    scene.check(one.fetch(identifier) == b"2" * 20, "a later upload replaced the object", "STO-4")


@case("STO-9", "OWN-1")
def a_duplicate_lives_and_dies_apart(scene: Scene) -> None:
    peer = scene.requester()
    source, target = peer.new_object(), peer.new_object()
    owner = new_id()
    scene.owners.add(owner)
    peer.store(source, b"value" * 100)
    peer.expect_done(peer.duplicate(source, target, owner=owner))
    scene.check(peer.fetch(target) == b"value" * 100, "the target has other bytes")
    peer.expect_done(peer.release(source))
    scene.check(not peer.is_there(source), "the source is there after its release", "OWN-3")
    scene.check(peer.fetch(target) == b"value" * 100, "the target went with its source")
    peer.expect_done(peer.release(target))
    scene.check(peer.is_there(target), "the target went when somebody released it who is no owner", "OWN-1")
    peer.expect_done(peer.release(target, owner=owner))
    scene.check(not peer.is_there(target), "the target is there after its owner's release", "OWN-3")


@case("STO-9")
def a_duplicate_to_a_target_that_exists_adds_the_owner(scene: Scene) -> None:
    """A client that comes back under another `peerId` so becomes an owner of what it had: source and target are one."""
    peer, other = scene.requester(), scene.requester()
    source, target = peer.new_object(), peer.new_object()
    peer.store(source, b"source")
    peer.expect_done(peer.duplicate(source, target))
    for identifier in (source, target):
        other.expect_done(other.duplicate(source, identifier))
        peer.expect_done(peer.release(identifier))
        scene.check(other.is_there(identifier), "the owner of the Duplicate is none")


@case("STO-31")
def a_duplicate_to_another_object_makes_no_owner(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    source, target = other.new_object(), peer.new_object()
    other.store(source, b"source")
    peer.store(target, b"target")
    other.expect_code(other.duplicate(source, target), CODES.EXISTS)
    scene.check(peer.fetch(target) == b"target", "the target was replaced")
    peer.expect_done(peer.release(target))
    scene.check(not other.is_there(target), "the owner of the Duplicate is one of another object")


@case("OWN-3")
def a_release_of_anything_is_no_error(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, b"x")
    peer.expect_done(peer.release(new_id(), identifier, identifier, new_id()))
    peer.expect_done(peer.release())
    peer.expect_done(peer.release(identifier, owner=new_id()))
    scene.check(not peer.is_there(identifier), "the object is there after its release")


@case("OWN-1")
def an_owner_counts_once_however_often_named(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    for _ in range(3):
        peer.expect_done(peer.put(identifier, b"x"))
    peer.expect_done(peer.release(identifier))
    scene.check(not peer.is_there(identifier), "its one owner has released it, and it is there", "OWN-3")


@case("OWN-1", "STO-17")
def objects_outlive_the_session_that_put_them(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, b"kept")
    peer.leave()
    scene.check(other.is_there(identifier), "the object went with the session that put it")


@case("OWN-4")
def an_owner_that_is_gone_has_nothing_and_gets_nothing(scene: Scene) -> None:
    peer, scheduler = scene.requester(), scene.requester("scheduler")
    owner, other = new_id(), new_id()
    scene.owners |= {owner, other}
    alone, shared = peer.new_object(), peer.new_object()
    peer.store(alone, b"a", owner=owner)
    peer.store(shared, b"s", owner=owner)
    peer.expect_done(peer.put(shared, b"s", owner=other))
    scheduler.expect_done(scheduler.release_owner(owner))
    scene.check(not peer.is_there(alone), "an object of the owner that is gone is there")
    scene.check(peer.is_there(shared), "an object with another owner is gone", "OWN-1")
    peer.expect_code(peer.put(peer.new_object(), b"late", owner=owner), GONE)
    peer.expect_code(peer.put(peer.new_object(), b"la", total=9, owner=owner), GONE)
    peer.expect_code(peer.put(shared, b"s", owner=owner), GONE)
    peer.expect_code(peer.duplicate(shared, peer.new_object(), owner=owner), GONE)
    scheduler.expect_done(scheduler.release_owner(owner), scheduler.release_owner(new_id()))
    peer.store(peer.new_object(), b"others go on", owner=other)


@case("OWN-4")
def a_duplicate_that_waits_for_an_owner_who_goes_is_refused(scene: Scene) -> None:
    peer, scheduler = scene.requester(), scene.requester("scheduler")
    owner = new_id()
    source, target = peer.new_object(), peer.new_object()
    waiting = peer.duplicate(source, target, owner=owner, wait=20)
    peer.fence()
    scheduler.expect_done(scheduler.release_owner(owner))
    peer.store(source, b"too late")
    peer.expect_code(waiting, GONE, NO_SUCH, clause="OWN-4")
    scene.check(not peer.is_there(target), "an owner that is gone was given an object")


@case("STO-15", "HSK-13")
def only_a_scheduler_may_release_an_owner(scene: Scene) -> None:
    owner = scene.requester()
    identifier = owner.new_object()
    owner.store(identifier, b"mine")
    for role in ("client", "worker"):
        peer = scene.requester(role)
        seq = peer.send("releaseOwner", requestId=5, owner=owner.peer_id)
        peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False)
        peer.fence()
        peer.expect_nothing("what is not allowed is refused once", "STO-11")
    scene.check(owner.is_there(identifier), "the objects were released all the same")


@case("STO-11")
def every_request_is_answered_once_with_its_number(scene: Scene) -> None:
    peer = scene.requester("scheduler")
    identifier = peer.new_object()
    requests = {
        peer.put(identifier, b"x"): "objectReply",
        peer.get(identifier): "value",
        peer.get(new_id()): "objectReply",
        peer.duplicate(identifier, peer.new_object()): "objectReply",
        peer.release(new_id()): "objectReply",
        peer.release_owner(new_id()): "objectReply",
    }
    number = peer.next_request()
    peer.send("storageStatusRequest", requestId=number)
    requests[number] = "storageStatus"
    peer.fence()
    answers = [(message["requestId"], message.kind) for message in peer.inbox]
    scene.equal(sorted(answers), sorted(requests.items()), "the answers")


@case("STO-11")
def a_release_without_a_number_is_not_answered(scene: Scene) -> None:
    peer = scene.requester("scheduler")
    identifier = peer.new_object()
    peer.store(identifier, b"x")
    peer.release(identifier, is_answered=False)
    peer.release_owner(new_id(), is_answered=False)
    peer.fence()
    peer.expect_nothing("their requestId is zero")
    scene.check(not peer.is_there(identifier), "it was not done either", "OWN-3")


@case("STO-11", "STO-7")
def who_waits_does_not_hold_up_the_others(scene: Scene) -> None:
    peer = scene.requester()
    awaited, identifier = peer.new_object(), peer.new_object()
    waiting = peer.get(awaited, wait=20)
    peer.store(identifier, b"quick")
    scene.check(peer.fetch(identifier) == b"quick", "another object came back changed")
    peer.store(awaited, b"slow")
    scene.equal(peer.reply(waiting, "STO-7").kind, "value", "the answer to the Get that waited", "STO-7")


@case("STO-16")
def the_status_counts_what_has_been_done(scene: Scene) -> None:
    peer = scene.requester()
    before = peer.status()
    identifiers = [peer.new_object() for _ in range(3)]
    for identifier in identifiers:
        peer.put(identifier, b"x" * 1000)
    peer.get(peer.new_object(), wait=20)
    during = peer.status()
    scene.equal(during["objectCount"] - before["objectCount"], 3, "the objects that were added")
    scene.equal(during["ownerCount"] - before["ownerCount"], 1, "the owners that were added")
    scene.check(during["memoryBytes"] - before["memoryBytes"] >= 3000, "memoryBytes does not count the three objects")
    scene.equal(during["waiterCount"] - before["waiterCount"], 1, "the waiters that were added")
    peer.release(*identifiers)
    after = peer.status()
    scene.equal(after["objectCount"], before["objectCount"], "objectCount after the release")
    scene.equal(after["memoryBytes"], before["memoryBytes"], "memoryBytes after the release")


@case("STO-1", "FRM-8")
def ids_have_sixteen_bytes(scene: Scene) -> None:
    peer = scene.requester()
    owner = peer.peer_id
    wrong: list[tuple[str, dict[str, object], tuple[bytes, ...]]] = [
        ("get", {"objectId": b"short"}, ()),
        ("get", {"objectId": b""}, ()),
        ("put", {"objectId": bytes(17), "owner": owner, "totalBytes": 1}, (b"x",)),
        ("put", {"objectId": new_id(), "owner": b"", "totalBytes": 1}, (b"x",)),
        ("duplicate", {"source": new_id(), "target": bytes(15), "owner": owner}, ()),
        ("release", {"owner": owner, "ids": bytes(24)}, ()),
    ]
    for kind, body, payload in wrong:
        seq = peer.next_seq()
        frames = encode(Message(kind, {"requestId": 1, **body}, seq, peer.received_seq, payload))
        peer.refused(frames, f"#{seq}   {kind} with an id that is none", CODES.BAD_ENVELOPE, ref_seq=seq)


@case("FRM-8")
def times_are_finite_and_not_negative(scene: Scene) -> None:
    peer = scene.requester()
    for value in (float("nan"), float("inf"), -1.0):
        seq = peer.next_seq()
        body = {"requestId": 1, "objectId": new_id(), "waitSeconds": value}
        frames = encode(Message("get", body, seq, peer.received_seq))
        peer.refused(frames, f"#{seq}   Get that waits {value} s", CODES.BAD_ENVELOPE, ref_seq=seq)


@case("STO-2")
def content_is_named_by_its_hash(scene: Scene) -> None:
    """A storage takes any id: who names content by its hash is the requester. What comes back has that hash."""
    peer = scene.requester()
    value = b"name:echo"
    scene.equal(content_id(value).hex(), "938b4a4609c20f292cde2da448edbcc5", "BLAKE2b-128 of `name:echo`")
    peer.store(content_id(value), value)
    scene.equal(content_id(peer.fetch(content_id(value))), content_id(value), "the hash of what came back")


@case("STO-12", variant="small", seconds=30.0)
def a_full_storage_says_so_and_goes_on(scene: Scene) -> None:
    """The variant `small` has room for 16 MiB."""
    peer = scene.requester()
    kept = peer.new_object()
    peer.store(kept, bytes(4 << 20))
    big = peer.new_object()
    answers = []
    for offset in range(0, 32 << 20, CHUNK):
        answer = peer.reply(peer.put(big, bytes(CHUNK), offset=offset, total=32 << 20))
        answers.append(answer["code"])
        if answer["code"]:
            break
    scene.equal(answers[-1], CODES.STORAGE_FULL, "the code of the last reply to an upload of 32 MiB")
    scene.check(not peer.is_there(big), "an upload that did not fit became an object", "STO-3")
    scene.check(len(peer.fetch(kept)) == 4 << 20, "another object was lost", "OWN-1")
    peer.store(peer.new_object(), bytes(8 << 20))


@case("LIM-36", variant="bounded")
def a_user_at_its_quota_is_refused_until_it_has_released_enough(scene: Scene) -> None:
    """The variant `bounded` lets each user have 1 MiB."""
    peer = scene.requester()
    first, second = peer.new_object(), peer.new_object()
    peer.store(first, bytes(700_000))
    peer.expect_code(peer.put(second, bytes(700_000)), CODES.QUOTA, clause="LIM-36")
    scene.check(not peer.is_there(second), "it is stored all the same", "LIM-36")
    peer.expect_done(peer.release(first))
    peer.expect_done(peer.put(second, bytes(700_000)), clause="LIM-36")


@case("STO-17", "SES-18")
def a_reply_is_sent_again_after_a_resume(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.fence()
    peer.acknowledge()
    had = peer.received_seq
    request = peer.put(identifier, b"x")
    peer.reply(request)
    peer.received_seq = had
    peer.resume()
    scene.equal(peer.reply(request, "SES-18")["code"], CODES.OK, "the code of the reply that is sent again", "SES-18")


@case("STO-28", "ERR-8")
def uploads_beyond_a_bound_are_refused_and_those_before_go_on(scene: Scene) -> None:
    """4,096 have to be taken; of further ones a storage may refuse any, and then it says TOO_MANY."""
    peer, other = scene.requester(), scene.requester()
    names = [peer.new_object() for _ in range(4_096)]
    for start in range(0, len(names), 8):
        for request in [peer.put(name, b"a", offset=0, total=2) for name in names[start : start + 8]]:
            peer.expect_done(request)
    answer = peer.reply(peer.put(peer.new_object(), b"a", offset=0, total=2))
    scene.check(answer.body["code"] in (CODES.OK, CODES.TOO_MANY), f"the code is {answer.body['code']}, not TOO_MANY")
    peer.expect_done(peer.put(names[0], b"b", offset=1, total=2))
    scene.check(peer.fetch(names[0]) == b"ab", "an upload that was accepted before was spoiled", "STO-3")
    other.expect_done(other.put(other.new_object(), b"a", offset=0, total=2))
