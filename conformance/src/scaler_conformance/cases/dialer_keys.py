"""A dialer whose cluster has a key (chapters 01, 02 and 17)."""

from __future__ import annotations

import zmq

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach

case = cases_for("worker", "client", "manager")

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
