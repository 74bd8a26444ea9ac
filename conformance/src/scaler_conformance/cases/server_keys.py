"""A server whose cluster has a key: a dialer without it is refused; a ticket is an identity (chapters 01 to 03, 17)."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, ROLES
from scaler_conformance.wire.keys import KEY_BYTES, USER, ClusterKey, Pass, ticket_id

case = cases_for("scheduler", "storage")
scheduler_case = cases_for("scheduler")

#: Two heartbeats of a server, as long as any that is usual.
KEY_SECONDS = 12.0
TIMERS = {"heartbeatSeconds": 1.0, "leaseSeconds": 10.0}
#: How long the fate of a connection may take to show.
VERDICT_SECONDS = 8.0
_VERDICTS = (
    *(zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL),
    *(zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_DISCONNECTED),
)


def _key(scene: Scene) -> ClusterKey:
    file = scene.arena.key_file
    scene.needs(file is not None, "keys are optional, and the manifest does not say `keys = true`")
    assert file is not None
    return file.key


def _stranger(scene: Scene, shown: Pass | None, role: str = "client") -> Dialer:
    peer = scene.peer(role, is_open=False)
    peer.shown = shown
    return peer


def _secret() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _expect_no_entry(scene: Scene, peer: Dialer) -> None:
    """Its handshake breaks off, or its connection is closed; the server handles nothing that it sends."""
    line = peer.connect(watched=sum(_VERDICTS))
    monitor = line.monitor
    assert monitor is not None
    peer.say_hello()
    end_at = time.monotonic() + VERDICT_SECONDS
    try:
        while time.monotonic() < end_at:
            scene.pump.turn()
            scene.check(not peer.inbox, "a stranger was answered", "FRM-14")
            if monitor.poll(0):
                event = recv_monitor_message(monitor)["event"]
                scene.check(event != zmq.EVENT_HANDSHAKE_SUCCEEDED, "the handshake of a stranger succeeded", "FRM-14")
                return
    finally:
        line.socket.disable_monitor()
        monitor.close(0)
    raise Breach(f"the connection of a stranger is neither refused nor closed within {VERDICT_SECONDS:g} s", "FRM-14")


@case("FRM-14")
def a_connection_without_a_key_is_not_admitted(scene: Scene) -> None:
    _key(scene)
    bystander = scene.peer()
    _expect_no_entry(scene, _stranger(scene, None))
    bystander.fence()


@case("FRM-14")
def a_connection_to_another_key_is_not_admitted(scene: Scene) -> None:
    _key(scene)
    other = ClusterKey(_secret())
    bystander = scene.peer()
    _expect_no_entry(scene, _stranger(scene, other.pass_for(_secret())))
    bystander.fence()


@case("HSK-30")
def a_hello_without_a_ticket_is_rejected(scene: Scene) -> None:
    peer = _stranger(scene, _key(scene).pass_for(_secret()))
    for credential in (b"", b"t", b"t" * 1024):
        peer.dial(credential=credential)
        peer.expect_reject(CODES.UNAUTHORIZED)


@case("HSK-30")
def a_ticket_of_another_key_is_rejected(scene: Scene) -> None:
    key, secret = _key(scene), _secret()
    forged = ClusterKey(_secret()).pass_for(secret).ticket
    peer = _stranger(scene, key.pass_for(secret))
    peer.dial(credential=forged)
    peer.expect_reject(CODES.UNAUTHORIZED)


@case("HSK-30")
def a_ticket_with_a_changed_byte_is_rejected(scene: Scene) -> None:
    shown = _key(scene).pass_for(_secret())
    for at in range(len(shown.ticket)):
        changed = bytearray(shown.ticket)
        changed[at] ^= 1 << at % 8
        peer = _stranger(scene, shown)
        peer.dial(credential=bytes(changed))
        peer.expect_reject(CODES.UNAUTHORIZED)
        peer.close()


@case("HSK-30")
def a_ticket_that_has_expired_is_rejected(scene: Scene) -> None:
    key, secret = _key(scene), _secret()
    peer = _stranger(scene, key.pass_for(secret, expires=int(time.time()) - 60))
    peer.dial()
    peer.expect_reject(CODES.UNAUTHORIZED)
    peer.shown = key.pass_for(secret, expires=int(time.time()) + 3600)
    peer.open()


@case("HSK-30")
def a_ticket_for_other_roles_is_rejected(scene: Scene) -> None:
    key = _key(scene)
    peer = _stranger(scene, key.pass_for(_secret(), [ROLES["monitor"]], is_operator=False))
    peer.dial()
    peer.expect_reject(CODES.UNAUTHORIZED)


@case("HSK-30")
def a_ticket_of_another_holder_is_rejected(scene: Scene) -> None:
    """It was read on its way, and is shown on another connection."""
    key = _key(scene)
    honest = scene.peer()
    assert honest.shown is not None
    thief = _stranger(scene, key.pass_for(_secret()))
    thief.dial(credential=honest.shown.ticket)
    thief.expect_reject(CODES.UNAUTHORIZED)
    honest.fence()


@case("SES-30")
def a_session_is_not_resumed_by_another_holder(scene: Scene) -> None:
    _key(scene)
    honest, thief = scene.peer(), scene.peer(is_open=False)
    resume = {"sessionId": honest.welcome["sessionId"], "receivedSeq": honest.received_seq}
    thief.dial(peerId=honest.peer_id, incarnation=honest.incarnation, resume=resume)
    thief.expect_reject(CODES.UNAUTHORIZED)
    honest.fence()


@case("SES-30")
def a_session_is_not_replaced_by_another_holder(scene: Scene) -> None:
    _key(scene)
    honest, thief = scene.peer(), scene.peer(is_open=False)
    for incarnation in (honest.incarnation, honest.incarnation + 1, 2**40):
        thief.dial(peerId=honest.peer_id, incarnation=incarnation)
        thief.expect_reject(CODES.UNAUTHORIZED)
    honest.fence()


@case("SES-30")
def a_holder_resumes_its_session_with_a_renewed_ticket(scene: Scene) -> None:
    key = _key(scene)
    peer = scene.peer(is_open=False)
    assert peer.shown is not None
    secret = peer.shown.secret_key
    peer.open()
    peer.shown = key.pass_for(secret, expires=int(time.time()) + 7200)
    peer.resume()
    peer.fence()


@case("SES-31", seconds=40.0)
def a_session_ends_soon_after_its_ticket_has_expired(scene: Scene) -> None:
    key = _key(scene)
    bystander = scene.peer()
    peer = scene.peer(is_open=False)
    peer.shown = key.pass_for(_secret(), expires=int(time.time()) + 3)
    peer.open(timers={"heartbeatSeconds": 1.0, "leaseSeconds": 10.0})
    error = peer.expect("error", seconds=15.0, clause="SES-31")
    scene.equal(error["code"], CODES.UNAUTHORIZED, "the code of the Error", "SES-31")
    scene.check(error["fatal"], "the Error is not fatal", "SES-31")
    peer.is_open = False
    bystander.fence()


@case("SES-32", fresh=True, seconds=60.0)
def tickets_of_a_key_that_was_taken_out_open_nothing(scene: Scene) -> None:
    """A new key is put in front of the old one, which is then taken out. Sessions under the new key go on, on a
    new connection if the server has closed theirs."""
    file = scene.arena.key_file
    old, new = _key(scene), ClusterKey(_secret())
    assert file is not None
    under_old, under_new = scene.peer(is_open=False), scene.peer(is_open=False)
    under_old.open(timers=TIMERS)
    assert under_old.shown is not None
    old_ticket, renewed = under_old.shown, new.pass_for(_secret())
    try:
        file.write("cluster.key", new.text() + old.text())
        under_new.shown = replace(renewed, server_key=old.curve_public)  # it listens with the pair of the oldest
        _until_answered(scene, under_new, "welcome", timers=TIMERS)
        under_new.expect_welcome()
        under_old.fence(clause="SES-32")
        file.write("cluster.key", new.text())
        under_old.shown = replace(old_ticket, server_key=new.curve_public)
        _until_answered(scene, under_old, "reject")
        under_old.expect_reject(CODES.UNAUTHORIZED, "SES-32")
        under_new.shown = renewed
        under_new.resume()
        under_new.fence(clause="SES-32")
    finally:
        file.write("cluster.key", old.text())


@case("SES-32", "SES-31", fresh=True, seconds=60.0)
def a_session_under_a_key_that_was_taken_out_ends(scene: Scene) -> None:
    """It is not the oldest one, so that the server goes on listening with the same pair."""
    file = scene.arena.key_file
    old, new = _key(scene), ClusterKey(_secret())
    assert file is not None
    bystander, peer = scene.peer(), scene.peer(is_open=False)
    try:
        file.write("cluster.key", new.text() + old.text())
        peer.shown = replace(new.pass_for(_secret()), server_key=old.curve_public)
        _until_answered(scene, peer, "welcome", timers=TIMERS)
        peer.expect_welcome()
        file.write("cluster.key", old.text())
        error = peer.expect("error", seconds=KEY_SECONDS, clause="SES-32")
        peer.is_open = False
        found = error["code"], error["fatal"]
        scene.equal(found, (CODES.UNAUTHORIZED, True), "the code of the Error, and whether it is fatal", "SES-32")
        bystander.fence(clause="SES-32")
    finally:
        file.write("cluster.key", old.text())


@case("SEC-20", fresh=True, seconds=60.0)
def a_session_of_a_revoked_ticket_ends_and_the_ticket_opens_none(scene: Scene) -> None:
    """Another ticket of the same user stays good."""
    file, key = scene.arena.key_file, _key(scene)
    assert file is not None
    bystander, peer = scene.peer(), scene.peer(is_open=False)
    assert peer.shown is not None
    peer.open(timers=TIMERS)
    named = ticket_id(peer.shown.public_key)
    try:
        file.write("revoked", f"# of {USER}\n{named}\n")
        error = peer.expect("error", seconds=KEY_SECONDS, clause="SEC-20")
        peer.is_open = False
        found = error["code"], error["fatal"], named in error["text"]
        wanted = CODES.UNAUTHORIZED, True, True
        scene.equal(found, wanted, "the code of the Error, whether it is fatal, and whether it names the id", "SEC-20")
        bystander.fence(clause="SEC-20")
        renewed = key.pass_for(peer.shown.secret_key, expires=int(time.time()) + 3600)
        for shown in (peer.shown, renewed):
            late = _stranger(scene, shown)
            late.dial()
            late.expect_reject(CODES.UNAUTHORIZED, "SEC-20")
        scene.peer()
    finally:
        file.remove("revoked")


@case("SEC-20", fresh=True, seconds=60.0)
def a_list_that_cannot_be_used_lets_no_revoked_ticket_in(scene: Scene) -> None:
    """A new key, which is written after the list, shows that the server has seen the list."""
    file = scene.arena.key_file
    old, new = _key(scene), ClusterKey(_secret())
    assert file is not None
    peer, watcher = scene.peer(is_open=False), scene.peer(is_open=False)
    peer.open(timers=TIMERS)
    assert peer.shown is not None
    try:
        file.write("revoked", f"{ticket_id(peer.shown.public_key)}\n")
        peer.expect("error", seconds=KEY_SECONDS, clause="SEC-20")
        peer.is_open = False
        file.write("revoked", "this is no id\n")
        file.write("cluster.key", new.text() + old.text())
        watcher.shown = replace(new.pass_for(_secret()), server_key=old.curve_public)
        _until_answered(scene, watcher, "welcome", timers=TIMERS)
        late = _stranger(scene, peer.shown)
        late.dial()
        late.expect_reject(CODES.UNAUTHORIZED, "SEC-20")
    finally:
        file.remove("revoked")
        file.write("cluster.key", old.text())


def _until_answered(scene: Scene, peer: Dialer, kind: str, **hello: Any) -> None:
    """It dials again and again until the server has read its file, and gives this answer."""
    end_at = time.monotonic() + KEY_SECONDS
    while time.monotonic() < end_at:
        peer.close()
        peer.inbox.clear()
        peer.dial(**hello)
        if scene.pump.until(lambda: bool(peer.inbox), 0.5) and peer.inbox[0].kind == kind:
            return
    raise Breach(f"no {kind} came within {KEY_SECONDS:g} s of a change of the keys", "SES-32")


@scheduler_case("HSK-33")
def a_client_that_is_no_operator_does_not_end_the_cluster(scene: Scene) -> None:
    client = scene.client(is_open=False)
    client.shown = _key(scene).pass_for(_secret(), [ROLES["client"]], is_operator=False)
    client.open()
    client.send("shutdown", graceSeconds=0.0)
    reply = client.expect("shutdownReply")
    scene.equal(reply["isAccepted"], False, "isAccepted")
    scene.check(bool(reply["text"].strip()), "the reply does not say why")
    client.fence()
