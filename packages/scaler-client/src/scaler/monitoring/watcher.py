"""A subscription in a thread of its own, for programs that have a loop already."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from scaler.monitoring.state import ClusterState, Heard
from scaler_protocol import waits
from scaler_protocol.messages import Message
from scaler_protocol.process import end_process

_TURN_SECONDS = 0.25
_JOIN_SECONDS = 5.0


class Source(Protocol):
    """A Subscription or a Playback."""

    state: ClusterState

    def poll(self, seconds: float) -> list[Heard]: ...
    def ask(self, message: Message) -> None: ...
    def close(self) -> None: ...


class Watcher:
    """Polls a Subscription or a Playback in a thread of its own."""

    def __init__(self, make: Callable[[], Source], on_heard: Callable[[ClusterState, list[Heard]], None]) -> None:
        """Nothing runs before `start`.

        Args:
            make: called once in the thread: returns the source.
            on_heard: called there as `on_heard(state, messages)` with those that arrive, and without any when the
                condition or its text has changed. It must return soon.
        """
        self._make = make
        self._on_heard = on_heard
        self._is_stopping = threading.Event()
        self._lock = waits.Lock()
        self._questions: list[Message] = []
        self._thread = threading.Thread(target=self._run, name="scaler-monitor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, message: Message) -> None:
        """Hand a question to the source. Any thread may call this.

        Args:
            message: as of `Subscription.ask`.
        """
        with self._lock:
            self._questions.append(message)

    def stop(self) -> None:
        """End the thread and close the source. Waits for the thread, for 5 s at most."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            self._watch()
        except BaseException as error:  # noqa: BLE001 what is shown would stand still, and look as if nothing happened
            end_process(self._thread.name, error)

    def _watch(self) -> None:
        source = self._make()
        shown: tuple[object, str] | None = None
        try:
            while not self._is_stopping.is_set():
                with self._lock:
                    questions, self._questions = self._questions, []
                for question in questions:
                    source.ask(question)
                heard = source.poll(_TURN_SECONDS)
                state = source.state
                if heard or (state.condition, state.text) != shown:
                    shown = state.condition, state.text
                    self._on_heard(state, heard)
        finally:
            source.close()
