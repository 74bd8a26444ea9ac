"""A dialer whose cluster has a key (chapters 01, 02 and 17)."""

from __future__ import annotations

from dataclasses import replace

import zmq

from scaler_conformance.case import cases_for
from scaler_conformance.cases.client_calls import answer
from scaler_conformance.cases.worker_running import call, run
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Result

case = cases_for("worker", "client", "manager")
worker_case, client_case = cases_for("worker"), cases_for("client")

#: How long a dialer is watched at an open port: it dials several times meanwhile.
OPEN_PORT_SECONDS = 4.0
_REBIND_SECONDS = 5.0


def _needs_keys(scene: Scene) -> None:
    scene.needs(scene.arena.key_file is not None, "keys are optional, and the manifest does not say `keys = true`")


@case("HSK-29")
def each_hello_has_a_ticket_for_its_connection(scene: Scene) -> None:
    """The hosts of the suite look at every ticket; here the dialer comes a second time."""
    _needs_keys(scene)
    guest = scene.guest()
    guest.resume_after_gap(5.0)
    hellos = [hello for hello in scene.scheduler.hellos if hello["peerId"] == guest.peer_id]
    scene.check(len(hellos) > 1, "it did not say Hello again")


@case("FRM-15", fresh=True)
def nothing_is_said_on_a_connection_without_a_key(scene: Scene) -> None:
    """The scheduler's place is taken by a server that speaks NULL."""
    _needs_keys(scene)
    scene.guest()
    address = scene.scheduler.address
    scene.pump.watch = lambda: None  # it may tell a person so, and end
    scene.scheduler.close()
    with _open_router(scene, address) as router:
        scene.pump.for_seconds(OPEN_PORT_SECONDS)
        if router.poll(0):
            raise Breach("the dialer spoke to a server without a key: a cluster with a key is not downgraded", "FRM-15")


def _named(scene: Scene) -> dict[str, set[bytes]]:
    """The owners that were named, by the kind of the message. The suite's storage looks at their grants."""
    kinds: dict[str, set[bytes]] = {}
    for message in (message for _, message in scene.storage.requests if "owner" in message.body):
        kinds.setdefault(message.kind, set()).add(message["owner"])
    return kinds


@worker_case("WRK-31", fresh=True)
def a_worker_names_the_clients_of_its_tasks(scene: Scene) -> None:
    """Two clients with tasks of one function, which take and return large values."""
    _needs_keys(scene)
    worker = scene.worker_under_test()
    size = worker.limits_in_force["inlineBytes"] + 1
    for client in (new_id(), new_id()):
        argument = new_id()
        scene.storage.store(argument, b"a" * size, client)
        scene.storage.requests.clear()
        task = replace(call(scene, "echo"), parts=((CODES.KIND_OBJECT, argument),))
        (result,) = run(scene, worker, task, client=client)
        scene.equal(result.kind, CODES.KIND_OBJECT, f"the kind of a value of {size} bytes", "PAY-1")
        named = _named(scene)
        scene.equal(set().union(*named.values()), {client}, "the owners that were named for the tasks of a client")
        scene.check(named.keys() & {"put", "putShared"} != set(), "the value was not stored", "WRK-13")
        fetched = [message["objectId"] for message in scene.storage.asked("get")]
        scene.check(argument in fetched, "the argument was not fetched for this client")


@client_case("CLI-19", fresh=True)
def a_client_names_itself_with_its_grant(scene: Scene) -> None:
    _needs_keys(scene)
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"l" * 300_000)
    (sent,) = client.wait_for_tasks(1)
    identifier = result_id(sent.id, 1)
    scene.storage.store(identifier, b"v" * 300_000, client.peer_id)
    answer(client, Result(sent.id, kind=CODES.KIND_OBJECT, value=identifier))
    scene.testee.result(task)
    released = scene.pump.until(lambda: identifier not in scene.storage.values, 10.0)
    scene.check(released, "the result object is still in storage, and it was fetched", "OWN-10")
    named = _named(scene)
    scene.equal(set().union(*named.values()), {client.peer_id}, "the owners that were named")
    scene.check({"get", "release"} <= named.keys(), "it read or released without naming an owner")


def _open_router(scene: Scene, address: str) -> zmq.Socket[bytes]:
    router: zmq.Socket[bytes] = scene.pump.context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)

    def is_bound() -> bool:
        try:
            router.bind(address)
        except zmq.ZMQError:
            return False  # libzmq closes a port behind our back, a moment later
        return True

    scene.check(scene.pump.until(is_bound, _REBIND_SECONDS), f"{address} did not become free again")
    return router
