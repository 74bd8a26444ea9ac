"""Which player there is for a role."""

from __future__ import annotations

from collections.abc import Mapping

from . import client_player, manager_player, scheduler_player, storage_player, worker_player
from .dialer_player import playing
from .engine import Player

PLAYERS: Mapping[str, tuple[Player, Mapping[str, int]]] = {
    "scheduler": (scheduler_player.play, scheduler_player.WEIGHTS),
    "storage": (storage_player.play, storage_player.WEIGHTS),
    "worker": (playing(worker_player.WorkerPlayer), worker_player.WEIGHTS),
    "manager": (playing(manager_player.ManagerPlayer), manager_player.WEIGHTS),
    "client": (playing(client_player.ClientPlayer), client_player.WEIGHTS),
}


def player_of(role: str) -> Player:
    return PLAYERS[role][0]


def weights_of(role: str) -> Mapping[str, int]:
    return PLAYERS[role][1]
