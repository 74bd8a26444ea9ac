"""Families that break their own process, for the test of what is done about it. No run imports this."""

from __future__ import annotations

import os

from tests.fuzz.attack import BEGIN_SECONDS, Attack
from tests.fuzz.families import family


@family()
def ends_its_process(attack: Attack) -> None:
    """As libzmq does when a socket is closed in the middle of a message. Only the first process does so."""
    mark = attack.scene.directory / "was here"
    if mark.exists():
        attack.count(place="afterwards")
        return
    mark.touch()
    attack.count(7, place="until then")
    for _ in range(2):  # the first time may have begun before this was counted
        attack.told.clear()
        assert attack.told.wait(BEGIN_SECONDS), "what an attack has done is told while it goes on"
    os.abort()


@family()
def raises(attack: Attack) -> None:
    attack.count()
    raise ValueError("a bug of this family")
