"""A client of a user of its own, in this process, that computes with values which no other user may ever see.

Its ids are recorded as it sends them. A hostile peer is given all of them: they are no secrets (SEC-5).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from scaler import Client

ID_BYTES = 16
MOST_IDS = 4_096
LARGE_BYTES = 150_000
CALL_SECONDS = 30.0
PAUSE_SECONDS = 0.01


def echo(value: bytes) -> bytes:
    print(value[:100])  # its client sees it, and those who watch
    return value


def joined(*values: bytes) -> bytes:
    return b"".join(values)


def nested(value: bytes) -> list[bytes]:
    with Client() as client:
        return list(client.map(echo, [value, value], capabilities=CAPABILITIES))


CAPABILITY = "bystander"
"""The worker that is no attacker has it: hostile workers are given none of these tasks."""
CAPABILITIES = {CAPABILITY: -1}


class Victim:
    """To be closed. `marker` is in all its values, and nowhere else."""

    def __init__(self, address: str, key_file: str) -> None:
        self.marker = b"of ana alone " + secrets.token_hex(8).encode()
        self.troubles: list[str] = []
        self.seconds: list[float] = []
        #: ids of its owner, tasks, functions, objects and graphs, the latest last
        self._ids: dict[bytes, None] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.client = Client(address, key_file=key_file)
        connection = self.client._ready().connection
        self.peer_id = bytes(connection.peer_id)
        assert connection.welcome is not None
        self.session_id = connection.welcome.session_id
        self._tap(connection.driver.endpoint)
        self._reference = self.client.send_object(self.marker * (LARGE_BYTES // len(self.marker)))
        self._note(self.peer_id)
        self._thread = threading.Thread(target=self._work, name="victim", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(2 * CALL_SECONDS)
            if self._thread.is_alive():
                self.troubles.append("a call of the other user did not end")
        self.client.disconnect()

    @property
    def ids(self) -> list[bytes]:
        with self._lock:
            held = self.client._ready().connection.storage.holdings.all()
            return [*self._ids, *(bytes(object_id) for object_id, _ in held)]

    @property
    def rounds(self) -> int:
        return len(self.seconds)

    # ------------------------------------------------------------ its ids

    def _tap(self, endpoint: Any) -> None:
        send: Callable[[Any], Any] = endpoint.send

        def tapped(message: Any) -> Any:
            self._note_all(message)
            return send(message)

        endpoint.send = tapped

    def _note_all(self, message: Any) -> None:
        for field in fields(message):
            value = getattr(message, field.name)
            if is_dataclass(value):
                self._note_all(value)
            elif type(value) is bytes and field.name not in ("payload", "owner_grant", "result_salt"):
                for start in range(0, len(value) - len(value) % ID_BYTES, ID_BYTES):
                    self._note(value[start : start + ID_BYTES])

    def _note(self, identifier: bytes) -> None:
        with self._lock:
            self._ids.pop(identifier, None)
            self._ids[identifier] = None
            while len(self._ids) > MOST_IDS:
                del self._ids[next(iter(self._ids))]

    # ------------------------------------------------------------ its work

    def _work(self) -> None:
        while not self._is_over.is_set() and len(self.troubles) < 5:
            for call in (self._small, self._large, self._graph, self._shared, self._nested):
                begun_at = time.monotonic()
                try:
                    call()
                except Exception as error:
                    if not self._is_over.is_set():
                        self.troubles.append(f"{call.__name__}: {type(error).__name__}: {error}"[:500])
                self.seconds.append(time.monotonic() - begun_at)
                if self._is_over.wait(PAUSE_SECONDS):
                    return

    def _expect(self, found: object, wanted: object) -> None:
        if found != wanted:
            self.troubles.append(f"a wrong value: {found!r:.200}")

    def _call(self, function: Callable[..., Any], *values: object) -> Any:
        future = self.client.submit_verbose(function, values, {}, capabilities=CAPABILITIES)
        return future.result(CALL_SECONDS)

    def _small(self) -> None:
        self._expect(self._call(echo, self.marker), self.marker)

    def _large(self) -> None:
        value = self.marker * (LARGE_BYTES // len(self.marker))
        self._expect(self._call(echo, value), value)

    def _graph(self) -> None:
        graph = {"a": (echo, self.marker), "b": (echo, self.marker), "c": (joined, "a", "b")}
        found = self.client.get(graph, ["c"], capabilities=CAPABILITIES, timeout=CALL_SECONDS)
        self._expect(found, {"c": self.marker * 2})

    def _shared(self) -> None:
        self._expect(self._call(joined, self._reference), self.marker * (LARGE_BYTES // len(self.marker)))

    def _nested(self) -> None:
        self._expect(self._call(nested, self.marker), [self.marker] * 2)
