"""A scheduler is lost and another one comes: what a core that holds tasks is told then, and what it presents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scaler_protocol.holding.presenting import FEATURE
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Holding
from scaler_protocol.session import Lost, Opened
from tests.support.holder_story import OPENED, SCHEDULER, names, sent

OTHER = PeerId(b"t" * 16)
LOST = Lost(SCHEDULER, 202, "it was restarted", False)


def opened(server: PeerId = OTHER, previous: PeerId = SCHEDULER, *, has_feature: bool = True) -> Opened:
    features = (FEATURE,) if has_feature else ()
    welcome = replace(OPENED.welcome, server_id=server, features=features, generation=2)
    return replace(OPENED, hello=replace(OPENED.hello, last_server_id=previous), welcome=welcome)


def presented(actions: Sequence[Any]) -> dict[int, int]:
    """The state of each task in the Holding of these actions."""
    rows: dict[int, int] = {}
    for message in sent(actions, Holding):
        held = names(message.ids)
        assert rows.keys().isdisjoint(held), "each is named once (WRK-36)"
        rows.update(zip(held, message.states or bytes(len(held)), strict=True))
    return rows
