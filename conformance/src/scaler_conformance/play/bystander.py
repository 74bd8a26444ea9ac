"""Somebody who does ordinary work beside a hostile peer, and must not notice anything of it (FRM-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_conformance.verdicts import Breach, Ended
from scaler_conformance.wire import CODES

if TYPE_CHECKING:
    from scaler_conformance.scene import Scene

#: What only the bystander's worker offers, so that nobody else is given the bystander's tasks.
PLACE = "bystander"


class Bystander:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._rounds = 0
        if scene.role == "storage":
            self._peer = scene.requester()
            self._object = self._peer.new_object()
            self._peer.store(self._object, b"the bystander's")
        else:
            self._client = scene.client()
            self._worker = scene.worker(credit=1, capabilities={PLACE: -1})

    def goes_on(self) -> None:
        """One piece of work, from beginning to end. Any surprise is the fault of whoever let it through."""
        self._rounds += 1
        try:
            if self._scene.role == "storage":
                self._store()
            else:
                self._work()
        except Ended:
            raise
        except Breach as breach:
            raise Breach(f"a bystander noticed: {breach.text}", "FRM-9") from None

    def _store(self) -> None:
        value = self._peer.fetch(self._object)
        self._scene.equal(value, b"the bystander's", "the bystander's object")
        identifier = self._peer.new_object()
        self._peer.store(identifier, b"more")
        self._peer.expect_done(self._peer.release(identifier))
        self._peer.fence()
        self._peer.expect_nothing()

    def _work(self) -> None:
        client, worker = self._client, self._worker
        (task,) = client.submit(1, capabilities=[{"name": PLACE, "amount": -1}])
        self._scene.settle(client, worker)
        (given,) = worker.expect_dispatch(1)
        worker.finish(given, value=b"round")
        self._scene.settle(worker, client)
        client.expect_status(task, CODES.STATUS_SUCCESS)
        client.expect_nothing()
        worker.expect_nothing()
