"""What a storage does when time passes."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("storage", layer="timing")
#: The bound of SES-14, and something for what is on its way.
KEPT_BYTES = 576 << 20


@case("STO-7")
def a_get_waits_as_long_as_it_was_asked_to(scene: Scene) -> None:
    peer = scene.requester()
    for duplicate in (False, True):
        never = peer.new_object()
        watch = scene.stopwatch()
        request = peer.duplicate(never, peer.new_object(), wait=0.4) if duplicate else peer.get(never, wait=0.4)
        kind = "Duplicate" if duplicate else "Get"

        def is_answered(request: int = request) -> bool:
            return any(message.body.get("requestId") == request for message in peer.inbox)

        watch.until(is_answered, 0.4 + 0.5, f"a {kind} that waits 0.4 s was not answered", "STO-7")
        watch.not_before(0.4, f"a {kind} that waits 0.4 s was answered", "STO-7")
        peer.expect_code(request, CODES.NO_SUCH_OBJECT, clause="STO-7")


@case("STO-8", "LIV-11")
def an_unfinished_upload_ends_with_a_lost_session(scene: Scene) -> None:
    peer = scene.requester(timers={"heartbeatSeconds": 0.1, "leaseSeconds": 0.6})
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b"a" * 10, total=30))
    peer.shows_life = peer.answers_pings = peer.acknowledges = False
    peer.expect_error(CODES.LEASE_EXPIRED, seconds=3.0, clause="LIV-11")
    peer.shows_life = peer.answers_pings = peer.acknowledges = True
    peer.resume()
    peer.expect_code(peer.put(identifier, b"b" * 20, offset=10, total=30), CODES.BAD_CHUNK)


@case("STO-3", "STO-7")
def nothing_is_given_up_after_a_moment(scene: Scene) -> None:
    """An upload stands still for three seconds, and requests wait for its object."""
    peer, reader = scene.requester(), scene.requester()
    identifier, copy = peer.new_object(), peer.new_object()
    peer.expect_done(peer.put(identifier, b"a" * 10, total=20))
    got, copied = reader.get(identifier, wait=60), reader.duplicate(identifier, copy, wait=60)
    scene.pump.until(lambda: bool(reader.inbox), 3.0)
    reader.expect_nothing("it was to wait for a minute, and three seconds have passed", "STO-7")
    peer.expect_done(peer.put(identifier, b"b" * 10, offset=10, total=20), clause="STO-3")
    scene.equal(reader.reply(got, "STO-7").kind, "value", "the answer to the Get that waited", "STO-7")
    reader.expect_done(copied, clause="STO-7")
    scene.check(reader.fetch(copy) == b"a" * 10 + b"b" * 10, "the object came back changed")


@case("SES-14", fresh=True, seconds=60.0)
def who_acknowledges_nothing_loses_its_session(scene: Scene) -> None:
    """It asks 80 times for an object of 8 MiB."""
    peer = scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, bytes(8 << 20))
    peer.acknowledges = peer.answers_pings = peer.shows_life = False
    for _ in range(80):
        peer.get(identifier)
    came = 0

    def is_over() -> bool:
        nonlocal came
        came += sum(len(message.payload[0]) for message in peer.take("value"))
        return not peer.is_open or came > KEPT_BYTES

    scene.pump.until(is_over, 20.0)
    scene.check(came <= KEPT_BYTES, f"{came >> 20} MiB were sent to {peer.name}, which has acknowledged nothing of it")
    if not peer.is_open:  # a storage may also hold back before it comes to that
        peer.expect_error(CODES.OVERLOADED, fatal=True)
