"""Pings, leases that are agreed on, and parting (chapter 04)."""

from __future__ import annotations

import math

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("scheduler", "storage")


@case("LIV-1")
def timers_are_not_longer_than_proposed(scene: Scene) -> None:
    for heartbeat, lease in ((0.05, 0.15), (0.1, 1.0), (1.0, 30.0), (2.0, 60.0), (0.01, 0.01), (0.2, 0.1)):
        peer = scene.peer(timers={"heartbeatSeconds": heartbeat, "leaseSeconds": lease})
        told = peer.welcome["timers"]
        shown = f"offered {heartbeat:g}/{lease:g}, in force {told['heartbeatSeconds']:g}/{told['leaseSeconds']:g}"
        scene.check(0.05 <= told["heartbeatSeconds"] <= max(heartbeat, 0.05) + 1e-6, f"heartbeatSeconds: {shown}")
        highest = max(lease, 3 * told["heartbeatSeconds"])
        lowest = 3 * told["heartbeatSeconds"]
        scene.check(lowest - 1e-6 <= told["leaseSeconds"] <= highest + 1e-6, f"leaseSeconds: {shown}")


@case("LIV-1")
def timers_that_are_zero_stand_for_the_servers_own(scene: Scene) -> None:
    peer = scene.peer(timers={"heartbeatSeconds": 0.0, "leaseSeconds": 0.0})
    told = peer.welcome["timers"]
    scene.check(told["heartbeatSeconds"] >= 0.05, f"heartbeatSeconds is {told['heartbeatSeconds']}")
    scene.check(told["leaseSeconds"] >= 3 * told["heartbeatSeconds"], f"leaseSeconds is {told['leaseSeconds']}")
    scene.check(all(map(math.isfinite, told.values())), f"the timers are {told}")


@case("LIV-4")
def every_ping_has_one_pong_with_its_nonce(scene: Scene) -> None:
    peer = scene.peer()
    nonces = [0, 1, 2**47, 5, 5]
    for nonce in nonces:
        peer.send("ping", nonce=nonce)
    peer.fence()
    told = scene.transcript.pong_nonces(peer.name)
    scene.equal(told, nonces, "the nonces of the Pongs", "LIV-4")


@case("LIV-8")
def a_session_is_over_with_bye(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    session, received = peer.welcome["sessionId"], peer.received_seq
    peer.bye()
    peer.send_message(Message("ping", {"nonce": 1}, peer.sent_seq + 1, received))
    peer.expect_error(CODES.NO_SESSION, clause="LIV-8")
    peer.dial(resume={"sessionId": session, "receivedSeq": received})
    answer = peer.expect("welcome", "reject", clause="LIV-8")
    is_resumed = answer.kind == "welcome" and answer["resumed"]
    scene.check(not is_resumed, "a session that ended with Bye was resumed")


@case("LIV-13")
def nothing_comes_after_a_bye(scene: Scene) -> None:
    peer = scene.peer()
    peer.send("ping", nonce=1)
    peer.fence()
    peer.bye()
    line = peer.line
    assert line is not None
    # The server has handled the Bye when a stranger's Ping on the same socket is answered.
    peer.send_message(Message("ping", {"nonce": 2}, peer.sent_seq + 1, peer.received_seq))
    peer.expect_error(CODES.NO_SESSION, clause="LIV-8")
    is_after = False
    for event in scene.transcript.events:
        if event["peer"] == peer.name and is_after and event["dir"] == "receive" and event["kind"] != "acknowledge":
            is_no_session = event["kind"] == "error"
            scene.check(is_no_session, f"after the Bye came {event['text']}", "LIV-13")
        is_after = is_after or (event["peer"] == peer.name and event["kind"] == "bye" and event["dir"] == "send")


@case("LIV-8", "HSK-10")
def after_bye_the_same_peer_may_come_again(scene: Scene) -> None:
    peer = scene.peer()
    peer.leave()
    peer.inbox.clear()
    peer.checks_laws = True
    peer.incarnation += 1
    peer.open()
    peer.fence()
