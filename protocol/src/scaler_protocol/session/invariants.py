"""What must hold between any two calls, derived anew from the tables themselves. Tests call it after every step."""

from __future__ import annotations

from collections import Counter

from scaler_protocol.keys import user_of
from scaler_protocol.session.dialer import SessionDialer
from scaler_protocol.session.dialer_states import HAS_SESSION, State
from scaler_protocol.session.server import SessionServer


def check_server(server: SessionServer) -> None:
    by_peer, by_routing = server._by_peer, server._by_routing
    carried = {session.carrier: session for session in by_peer.values() if session.carrier is not None}
    assert by_routing == carried, "the routing table holds all and only the sessions that a socket carries"
    watched: dict[int, float] = {}
    for at, session in server._deadlines.watched():
        watched[session.session_id] = min(at, watched.get(session.session_id, at))
    for peer_id, session in by_peer.items():
        assert session.peer_id == peer_id and not session.is_over
        assert session.session_id != 0, "zero names no session (SES-19)"
        assert session.routing_id in (None, session.carrier), "what can be sent to can be heard"
        assert watched[session.session_id] <= session.checks_at(), "every session is watched in time"
        if session.pings:
            assert session in server._unsettled, "every Ping is answered at the next settle"
        session.channel.check()
    session_ids = [session.session_id for session in by_peer.values()]
    assert server._bounds.sessions_of == Counter(user_of(session.identity) for session in by_peer.values())
    assert len(set(session_ids)) == len(session_ids), "a session id names one session"


def check_dialer(dialer: SessionDialer) -> None:
    state = dialer._state
    if state in HAS_SESSION:
        assert dialer._welcome.session_id != 0
        dialer._channel.check()
    if dialer._held is not None:
        assert state is State.RESUMING, "only a Welcome to a resuming dialer ever waits"
    if state is State.IDLE:
        assert dialer.generation == 0
    elif state is not State.ENDED:
        assert dialer.next_deadline() is not None, "a dialer that is neither idle nor ended always has a next step"
    assert (state is State.OPEN) == dialer.is_open
