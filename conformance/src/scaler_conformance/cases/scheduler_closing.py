"""Shutting a cluster down (chapter 06)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler")


@case("SCH-26", variant="protected")
def a_protected_scheduler_refuses_and_goes_on(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=1)
    scene.equal(client.welcome["isProtected"], True, "isProtected in the Welcome of a protected scheduler")
    client.send("shutdown", graceSeconds=0.0)
    reply = client.expect("shutdownReply")
    scene.equal(reply["isAccepted"], False, "isAccepted")
    scene.check(bool(reply["text"].strip()), "the reply does not say why")
    client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-26", "the cluster goes on")


@case("SCH-24", "LIV-8", "SES-1", fresh=True)
def an_accepted_shutdown_is_told_to_everyone(scene: Scene) -> None:
    client, other, worker, idle = scene.client(), scene.client(), scene.worker(credit=1), scene.worker()
    watcher = scene.peer("monitor")
    scene.equal(client.welcome["isProtected"], False, "isProtected", "SCH-26")
    client.submit(1)
    scene.settle(client, worker, other, idle, watcher)
    worker.expect_dispatch(1, "SCH-25")
    client.send("shutdown", graceSeconds=0.125)
    reply = client.expect("shutdownReply")
    scene.equal(reply["isAccepted"], True, "isAccepted")
    for each in (worker, idle):
        told = each.expect("shutdown")
        scene.equal(told["graceSeconds"], 0.125, f"graceSeconds at {each.name}")
    worker.bye()
    for peer in (other, client, watcher):
        scene.pump.watch = lambda: None  # from now on the process may end
        bye = peer.expect("bye", seconds=10.0)
        scene.equal(bye["code"], CODES.SHUTTING_DOWN, "the code of the Bye")
    has_ended = scene.pump.until(lambda: not scene.subject.is_running, 10.0)
    scene.check(has_ended, "the process has not ended 10 s after its Bye")


@case("SCH-27", fresh=True)
def nobody_comes_in_while_it_shuts_down(scene: Scene) -> None:
    """A worker that does not leave keeps the shutdown going for its grace."""
    client, worker = scene.client(), scene.worker(credit=1)
    client.submit(1)
    scene.settle(client, worker)
    scene.pump.watch = lambda: None
    client.send("shutdown", graceSeconds=3.0)
    client.expect("shutdownReply", clause="SCH-24")
    late = scene.peer(is_open=False)
    late.dial()
    scene.pump.until(lambda: bool(late.inbox), 2.0)
    if not late.inbox and not scene.subject.is_running:
        return  # it was quick: there is nobody left to say no
    late.expect_reject(CODES.SHUTTING_DOWN)
