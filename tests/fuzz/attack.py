"""What a family of attacks is given, in the process of the attackers."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.access import Access
from tests.support.processes import Command

BEGIN_SECONDS = 15.0
PAGE_TOKEN = "fuzz"
"""Hostile visitors of the page have it: without it they get nowhere."""
KEPT_BYTES = 1024
"""For each object that a family has asked a storage to keep: to keep objects is what it is for, up to its limit."""
AUDITS = 6
"""Of the first messages of a family: whether a server accepts them, or refuses them and does nothing for them."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the cluster is that is attacked, and what its hostile peers have."""

    access: Access
    directory: Path
    port: int
    page_port: int
    standby_port: int  #: where a scheduler waits for its turn, if the cluster has keys
    #: of the stage, so that it ends whatever the attackers have started
    environment: dict[str, str]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def adapter_port(self) -> int:
        return self.page_port + 1

    def start(self, module: str, *arguments: str) -> Command:
        """A program that is no part of the cluster. The family that starts it ends it."""
        return Command([sys.executable, "-m", module, *arguments], self.environment, self.directory)


class Attack:
    """What a family is given: its choices, how long it may go on, and where the cluster is."""

    def __init__(
        self, scene: Scene, chance: random.Random, seconds: float, place: str, *, has_sessions: bool = False
    ) -> None:
        """`place`: where inputs go, unless it is told with them. `has_sessions`: it is to get at least one."""
        self.scene = scene
        self._has_sessions = has_sessions
        self.chance = chance
        self.port = scene.port
        self.end_at = time.monotonic() + seconds
        self.place = place
        #: inputs by the port that they went to, and the role of the session
        self.places: Counter[str] = Counter()
        self.sessions = 0  #: that were opened
        self.kept_bytes = 0  #: that the storage was asked to keep
        self.wants_audits = False
        self._audits_left = AUDITS
        #: of the messages whose fate was looked at, and how many of them a server has refused
        self.audited_messages = self.refused_messages = 0
        self.troubles: list[str] = []  #: what the family itself has found to be wrong
        self.told = threading.Event()  #: what it has done was told to the run once more
        self._closing: list[Callable[[], None]] = []

    @property
    def is_on(self) -> bool:
        """On a loaded machine the first connection may take longer than a short attack."""
        has_begun = self.inputs and (self.sessions or not self._has_sessions)
        return time.monotonic() < self.end_at + (0.0 if has_begun else BEGIN_SECONDS)

    def is_on_after(self, seconds: float) -> bool:
        """Still, if it had so many seconds more."""
        return time.monotonic() < self.end_at + seconds

    @property
    def inputs(self) -> int:
        return self.places.total()

    def count(self, inputs: int = 1, place: str = "") -> None:
        self.places[place or self.place] += inputs

    def keeps(self, objects: int) -> None:
        """The storage is asked to keep so many, small ones."""
        self.kept_bytes += objects * KEPT_BYTES

    def takes_audit(self) -> bool:
        """Whether the fate of the messages just sent is to be looked at; it is then, soon."""
        self._audits_left -= self.wants_audits
        return self.wants_audits and self._audits_left >= 0

    def audited(self, messages: int, refused: int) -> None:
        self.audited_messages += messages
        self.refused_messages += min(refused, messages)

    def at_end(self, close: Callable[[], None]) -> None:
        self._closing.append(close)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()
