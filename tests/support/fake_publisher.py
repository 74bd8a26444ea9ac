"""A scheduler that only publishes: real sessions with monitors, and what a test lets it say."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Collection

from scaler_protocol.codes import ROLE_MONITOR
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.messages import Message, Software, Watch
from scaler_protocol.session import Lost, Received, SessionServer
from scaler_protocol.session.bounds import Quota
from scaler_protocol.software import this_software
from scaler_protocol.transport import RouterEndpoint
from tests.support.keyed import keyed
from tests.support.processes import WAIT

_TURN_SECONDS = 0.02


class FakePublisher:
    """Of one thread of its own. `publish` reaches all that watch; `repeat` is published in every turn."""

    def __init__(
        self,
        address: str = "tcp://127.0.0.1:*",
        software: Software | None = None,
        roles: Collection[int] = (ROLE_MONITOR,),
        most_sessions: int = 100,
    ) -> None:
        server = SessionServer(
            server_id=new_peer_id(),
            role_name="scheduler",
            allowed_roles=roles,
            software=software or this_software("scaler-tests"),
            admission=keyed(),
            sessions=Quota(first=0, further=most_sessions),
        )
        self._endpoint = RouterEndpoint(address, server)
        self.address = self._endpoint.address
        self.watching: dict[PeerId, tuple[str, ...]] = {}
        self.watches: list[Watch] = []
        self.asked: list[Message] = []
        self.repeat: Message | None = None
        self.answer: Callable[[Message], Message | None] = lambda question: None
        self._said: list[Message] = []
        #: around `watching` and `_said`
        self._changed = threading.Condition()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-publisher")
        self._thread.start()

    def publish(self, *messages: Message) -> None:
        with self._changed:
            self._said += messages

    def wait_for_watchers(self, count: int = 1) -> None:
        with self._changed:
            is_met = self._changed.wait_for(lambda: len(self.watching) == count, WAIT)
        assert is_met, f"waited in vain for {count} watchers: {self.watching}"

    def unacknowledged(self) -> list[int]:
        """Messages that each watcher has not acknowledged."""
        return [self._endpoint.unacknowledged(peer_id)[1] for peer_id in list(self.watching)]

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(WAIT)

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._turn(time.monotonic())
        self._endpoint.close()

    def _turn(self, now: float) -> None:
        for event in self._endpoint.poll(now):
            if isinstance(event, Received):
                self._take(event)
            elif isinstance(event, Lost):
                with self._changed:
                    self.watching.pop(event.peer_id, None)
                    self._changed.notify_all()
        with self._changed:
            said, self._said = self._said, []
        if self.repeat is not None:
            said.append(self.repeat)
        for peer_id in self.watching:
            for message in said:
                self._endpoint.send(peer_id, message)
        if not self._endpoint.settle(now):
            select.select([self._endpoint.fileno()], [], [], _TURN_SECONDS)

    def _take(self, event: Received) -> None:
        if isinstance(event.message, Watch):
            with self._changed:
                self.watching[event.peer_id] = event.message.topics
                self.watches.append(event.message)
                self._changed.notify_all()
            return
        self.asked.append(event.message)
        answer = self.answer(event.message)
        if answer is not None:
            self._endpoint.send(event.peer_id, answer)
