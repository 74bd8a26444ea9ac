"""Which player there is for a role."""

from __future__ import annotations

from collections.abc import Mapping

from . import client_player, manager_player, scheduler_player, storage_player, worker_player
from .engine import Player

PLAYERS: Mapping[str, tuple[Player, Mapping[str, int]]] = {
    "scheduler": (scheduler_player.play, scheduler_player.WEIGHTS),
    "storage": (storage_player.play, storage_player.WEIGHTS),
    "worker": (worker_player.play, worker_player.WEIGHTS),
    "manager": (manager_player.play, manager_player.WEIGHTS),
    "client": (client_player.play, client_player.WEIGHTS),
}


def player_of(role: str) -> Player:
    return PLAYERS[role][0]


def weights_of(role: str) -> Mapping[str, int]:
    return PLAYERS[role][1]
