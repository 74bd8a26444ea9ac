"""Lines of the scheduler's log about sessions: a peer has joined, has left or was lost, or complains."""

from __future__ import annotations

import logging
from collections.abc import Callable

from scaler_protocol.codes import ROLE_CLIENT, ROLE_MANAGER, ROLE_MONITOR, ROLE_WORKER, SESSION_REPLACED
from scaler_protocol.ids import PeerId
from scaler_protocol.session import Complained, Lost, Opened, SessionEvent
from scaler_scheduler.core.notes.cluster_events import place_of

_ROLE_NAMES = {
    ROLE_CLIENT: "client",
    ROLE_WORKER: "worker",
    ROLE_MONITOR: "monitor",
    ROLE_MANAGER: "worker manager",
}


def log_session(event: SessionEvent, name_of: Callable[[PeerId], str]) -> None:
    if isinstance(event, (Opened, Lost)) and event.is_again:
        return
    if isinstance(event, Opened):
        role = _ROLE_NAMES[event.hello.role]
        name = event.hello.worker.name or event.hello.manager.name or name_of(event.peer_id)
        place = place_of(event.hello.software) or "of unknown software"
        logging.info("Scheduler: %s %s joined (%s)", role, name, place)
    elif isinstance(event, Lost):
        # A dialer whose first Welcome comes too late begins another session, as after a break: no trouble.
        is_usual = event.is_orderly or event.code == SESSION_REPLACED
        level = logging.INFO if is_usual else logging.WARNING
        how = "left" if is_usual else "was lost"
        logging.log(level, "Scheduler: peer %s %s: %s", name_of(event.peer_id), how, event.text or "goodbye")
    elif isinstance(event, Complained):
        logging.warning("Scheduler: peer %s complains: %s (%s)", name_of(event.peer_id), event.text, event.clause)
