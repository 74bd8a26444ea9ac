"""What the players of dialers have in common: they act, look at what has come, and wait at the end for the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from scaler_conformance.scene import Scene

from .engine import Player
from .steps import Step


class DialerPlayer(ABC):
    """A step is a method of its name."""

    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        self.scene = scene
        self.edges = edges

    def step(self, step: Step) -> None:
        name, *numbers = step
        getattr(self, f"_{name}")(*numbers)
        self.edges[f"step: {name}"] += 1
        self._look()

    @abstractmethod
    def _look(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...


def playing(kind: type[DialerPlayer]) -> Player:
    def play(scene: Scene, steps: list[Step], edges: Counter[str]) -> None:
        player = kind(scene, edges)
        for step in steps:
            player.step(step)
        player.end()

    return play
