"""How any server answers a Hello (chapter 02)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.samples import forbidden_kinds, rights, samples
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, ROLES, Message

case = cases_for("scheduler", "storage")


@case("HSK-10", "FRM-1")
def a_hello_is_answered_by_one_welcome(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    scene.equal(len(peer.take("welcome")), 0, "the count of further Welcomes", "HSK-10")
    scene.check(len(peer.welcome["serverId"]) == 16, "serverId is no id of 16 bytes", "FRM-8")


@case("HSK-10", "HSK-2")
def a_hello_with_every_field_set_is_answered(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    full = dict(samples()["hello"].body)
    full |= peer.hello(features=["x-a", "x-b"], parentTask=new_id())
    peer.dial(**{name: full[name] for name in full if name not in ("resume", "worker")})
    peer.expect_welcome()


@case("HSK-3")
def no_common_version_is_rejected_with_the_servers_range(scene: Scene) -> None:
    for lowest, highest in ((0, 0), (60_000, 60_009), (65_535, 65_535)):
        peer = scene.peer(is_open=False)
        peer.dial(versionMin=lowest, versionMax=highest)
        reject = peer.expect_reject(CODES.VERSION_MISMATCH)
        shown = f"{reject['versionMin']}..{reject['versionMax']}"
        scene.check(reject["versionMin"] <= 1 <= reject["versionMax"], f"the Reject tells the range {shown} without 1")


@case("HSK-3")
def the_highest_common_version_is_chosen(scene: Scene) -> None:
    stranger = scene.peer(is_open=False)
    stranger.dial(versionMin=65_535, versionMax=65_535)
    own = stranger.expect_reject(CODES.VERSION_MISMATCH)["versionMax"]
    for lowest, highest in ((0, 1), (1, 1), (0, 65_534), (1, 9)):
        peer = scene.peer(versionMin=lowest, versionMax=highest)
        version = peer.welcome["version"]
        best = min(highest, own)
        scene.equal(version, best, f"the version of the Welcome, offered {lowest}..{highest} and knowing up to {own},")
        scene.check(lowest <= version <= highest, f"the Welcome says version {version}, offered {lowest}..{highest}")
        scene.check(version >= 1, f"the Welcome says version {version}, and 1 is common to both")


@case("HSK-11", "HSK-10")
def a_reject_has_a_text(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    peer.dial(versionMin=60_000, versionMax=60_000)
    reject = peer.expect_reject(CODES.VERSION_MISMATCH, "HSK-3")
    scene.check(bool(reject["text"].strip()), "the text of the Reject is empty")


@case("HSK-4")
def a_peer_id_of_another_length_is_rejected(scene: Scene) -> None:
    for length in (0, 1, 15, 17, 32):
        peer = scene.peer(is_open=False)
        peer.dial(peerId=b"p" * length)
        peer.expect_reject(CODES.BAD_IDENTITY)


@case("HSK-5")
def a_role_that_is_not_served_is_rejected(scene: Scene) -> None:
    unserved = [0, 99, 65_535]
    unserved += [] if scene.role == "scheduler" else [ROLES["manager"]]
    for role in unserved:
        peer = scene.peer(is_open=False)
        peer.dial(role=role)
        peer.expect_reject(CODES.BAD_ROLE)


@case("HSK-13")
def what_a_role_may_not_send_is_refused(scene: Scene) -> None:
    for role in rights()[scene.role]:
        peer = scene.peer(role)
        for kind in forbidden_kinds(scene.role, role):
            sample = samples()[kind]
            payload = sample.payload[0] if sample.payload else None
            seq = peer.send(kind, payload=payload, **sample.body)
            peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False)
        peer.fence()
        peer.expect_nothing("each message is refused once", "ERR-1")


@case("HSK-9")
def whoever_has_no_session_is_told_so(scene: Scene) -> None:
    for kind, body in (("ping", {"nonce": 3}), ("acknowledge", {}), ("pong", {"nonce": 4})):
        peer = scene.peer(is_open=False)
        peer.connect()
        seq = 0 if kind == "acknowledge" else 1
        peer.send_message(Message(kind, body, seq))
        peer.expect_error(CODES.NO_SESSION, fatal=True, ref_seq=seq)


@case("HSK-9", "ERR-4")
def bye_and_error_of_a_stranger_are_not_answered(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    peer.connect()
    peer.send_message(Message("bye", {}, 1))
    peer.send_message(Message("error", {"code": 60_001, "text": "a stranger complains"}))
    peer.send_message(Message("error", {"code": 60_001, "fatal": True}))
    peer.say_hello()
    peer.expect_welcome("ERR-4")
    peer.fence()
    peer.expect_nothing("Bye and Error of a socket without a session get no answer")


@case("HSK-7", "SES-12", "SES-21")
def a_higher_incarnation_is_a_new_life_whatever_resume_says(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    old, session = peer.line, peer.welcome["sessionId"]
    assert old is not None
    resume = {"sessionId": session, "receivedSeq": peer.received_seq}
    peer.is_open = False
    peer.about = "HSK-7"
    peer.dial(incarnation=2, resume=resume)
    welcome = peer.expect_welcome("HSK-7")
    scene.equal(welcome["resumed"], False, "resumed in the Welcome of a new life", "HSK-7")
    scene.check(welcome["sessionId"] != session, "the new life was given the old session", "HSK-7")
    old.expect_error(CODES.SESSION_REPLACED, "SES-21")
    peer.fence()


@case("HSK-14")
def a_lower_incarnation_is_rejected(scene: Scene) -> None:
    peer = scene.peer(incarnation=7)
    late = scene.peer(is_open=False)
    late.shown = peer.shown  # the same holder (SES-30)
    late.dial(peerId=peer.peer_id, incarnation=6)
    late.expect_reject(CODES.SESSION_REPLACED)
    peer.fence(clause="HSK-14")
    peer.expect_nothing("a late Hello does not touch the session", "HSK-14")


@case("HSK-6")
def features_are_those_that_both_sides_name(scene: Scene) -> None:
    offered = ["x-scaler-conformance-nobody-has-this", "x-", "object-teleport"]
    peer = scene.peer(features=offered)
    told = set(peer.welcome["features"])
    scene.check(not told - set(offered), f"the Welcome has features that were not offered: {sorted(told)}")
    scene.check(not told, f"the Welcome has features that nobody can know: {sorted(told)}")
    without = scene.peer(features=[])
    scene.check(not without.welcome["features"], f"nothing was offered, and on are {without.welcome['features']}")


DEFAULTS = {"inlineBytes": 65_536, "payloadFrameBytes": 67_108_864, "batchTasks": 65_536, "envelopeBytes": 4_194_304}
FLOORS = {"inlineBytes": 1024, "payloadFrameBytes": 8 << 20, "batchTasks": 1, "envelopeBytes": 65_536}


@case("HSK-15", "LIM-2")
def limits_are_the_smaller_of_both_sides(scene: Scene) -> None:
    huge = scene.peer(limits={name: value * 16 - 1 for name, value in DEFAULTS.items()})
    own = dict(huge.welcome["limits"])  # the offer was larger than any server's
    for name, floor in FLOORS.items():
        scene.check(own[name] >= floor, f"limits.{name} is {own[name]}, below the floor {floor}", "LIM-2")
    for offered in (dict.fromkeys(DEFAULTS, 0), DEFAULTS, FLOORS, {**FLOORS, "batchTasks": 7, "inlineBytes": 0}):
        peer = scene.peer(limits=offered)
        for name in DEFAULTS:
            expected = min(offered[name] or DEFAULTS[name], own[name])
            scene.equal(peer.welcome["limits"][name], expected, f"limits.{name}, offered {offered[name]}", "HSK-15")


@case("LIM-5")
def limits_below_the_floors_are_raised_to_them(scene: Scene) -> None:
    for offered in (dict.fromkeys(DEFAULTS, 1), {name: floor - 1 or 1 for name, floor in FLOORS.items()}):
        peer = scene.peer(limits=offered)
        for name, floor in FLOORS.items():
            agreed = peer.welcome["limits"][name]
            scene.equal(agreed, floor, f"limits.{name}, offered {offered[name]}", "LIM-5")


@case("HSK-17")
def the_same_hello_again_gets_the_same_welcome(scene: Scene) -> None:
    peer = scene.peer()
    first = dict(peer.welcome)
    peer.fence()
    peer.say_hello()
    again = peer.expect("welcome", "reject", "error", clause="HSK-17")
    if again.kind != "welcome":
        raise Breach(f"the same Hello on the same socket was answered {scene.transcript.describe(again)}", "HSK-17")
    for name in ("sessionId", "serverId", "incarnation", "version", "resumed", "limits", "timers"):
        scene.equal(again[name], first[name], f"{name} of the repeated Welcome", "HSK-17")
    peer.fence(clause="HSK-17")
    peer.expect_nothing("a repeated Hello changes nothing")


@case("HSK-23")
def a_late_hello_of_an_earlier_state_does_not_resume(scene: Scene) -> None:
    peer = scene.peer()
    for _ in range(3):
        peer.fence()
    peer.acknowledge()
    peer.fence()
    late = scene.peer(is_open=False)
    resume = {"sessionId": peer.welcome["sessionId"], "receivedSeq": 1}
    late.shown = peer.shown  # the same holder (SES-30)
    late.dial(peerId=peer.peer_id, incarnation=peer.incarnation, resume=resume)
    late.expect_reject(CODES.SESSION_REPLACED)
    peer.fence(clause="HSK-23")


@case("HSK-23")
def a_hello_that_names_another_session_does_not_replace_a_used_one(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    late = scene.peer(is_open=False)
    other = {"sessionId": peer.welcome["sessionId"] + 1_000_003, "receivedSeq": 0}
    late.shown = peer.shown  # the same holder (SES-30)
    late.dial(peerId=peer.peer_id, incarnation=peer.incarnation, resume=other)
    late.expect_reject(CODES.SESSION_REPLACED)
    peer.fence(clause="HSK-23")
    peer.expect_nothing("a late Hello does not touch the session")


@case("HSK-24")
def a_session_that_nobody_has_used_moves_to_the_later_hello(scene: Scene) -> None:
    """The Welcome missed its dialer: the same Hello comes again on another socket."""
    peer = scene.peer()
    first = peer.welcome["sessionId"]
    peer.is_open = False
    peer.dial()
    welcome = peer.expect_welcome("HSK-24")
    scene.equal(welcome["sessionId"], first, "sessionId of the Welcome on the other socket", "HSK-24")
    scene.equal(welcome["resumed"], False, "resumed", "HSK-24")
    peer.fence(clause="HSK-24")


@case("HSK-24")
def a_session_that_nobody_has_used_moves_to_whoever_asks_for_another(scene: Scene) -> None:
    peer = scene.peer()
    first = peer.welcome["sessionId"]
    peer.is_open = False
    peer.dial(resume={"sessionId": first + 1_000_003, "receivedSeq": 4})
    welcome = peer.expect_welcome("HSK-24")
    scene.equal(welcome["sessionId"], first, "sessionId of the Welcome on the other socket", "HSK-24")
    peer.fence(clause="HSK-24")
