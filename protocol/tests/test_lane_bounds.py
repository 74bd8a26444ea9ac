"""What connections of the local lane may take of their server: memory and time (LAN-9, FRM-18)."""

from __future__ import annotations

import sys
import time

import pytest
from tests.support.endpoints import Bench
from tests.support.raw_lane import Raw, push

from scaler_protocol import codes
from scaler_protocol.codec import encode
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import Acknowledge, Bye, Error, Hello, Limits, Welcome
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint, lane, lane_server
from scaler_protocol.transport.framing import header

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local lane is Linux only")


@pytest.fixture
def way() -> str:
    return "lane"


def test_an_envelope_beyond_the_limit_is_answered(bench: Bench, server: RouterEndpoint, raw: Raw) -> None:
    raw.send(*map(bytes, encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id()))))
    assert isinstance(raw.answer(bench), Welcome)
    push(bench, raw, header([bytes(Limits().envelope_bytes + 8)]) + bytes(Limits().envelope_bytes + 8))
    while isinstance(answer := raw.answer(bench), Acknowledge):
        pass  # the server asks whether the connection is there
    assert isinstance(answer, Error) and answer.code == codes.TOO_LARGE and answer.text


@pytest.mark.parametrize("was_welcome", [False, True])
def test_a_peer_without_a_session_has_room_for_a_hello(
    bench: Bench,
    server: RouterEndpoint,
    bystander: DealerEndpoint,
    raw: Raw,
    was_welcome: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:  # LAN-9
    """After a session has moved away, large messages of it may be on their way: that is nothing to warn of."""
    if was_welcome:
        raw.send(*map(bytes, encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id()))))
        assert isinstance(raw.answer(bench), Welcome)
        raw.send(*map(bytes, encode(Bye(0, ""), 1, 0)))
        bench.until(lambda: "Lost" in bench.kinds(server), "the goodbye")
        assert server._lanes is not None
        server._lanes.look(time.monotonic())
    raw.socket.sendall(header([memoryview(bytes(lane.HELLO_BYTES + 1))]))
    bench.until(raw.is_closed, "the end of the connection")
    assert len(caplog.records) == (0 if was_welcome else 1)
    bench.ask(bystander, 1)


def test_a_crowd_that_floods_the_lane_leaves_time_for_others(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a budget of no time at all a turn takes one portion of one connection, and all have their turn."""
    monkeypatch.setattr(lane_server, "BUDGET_SECONDS", -1.0)
    crowd = [Raw(server.address) for _ in range(5)]
    noise = b"".join([header([b"x"]), b"x"] * 10_000)
    for one in crowd:
        push(bench, one, noise[: 5 * 20_000])
    bench.ask(bystander, 1)
    others = [bench.dialer(server.address) for _ in range(3)]
    for number, other in enumerate(others):
        bench.open(other)
        bench.ask(other, number + 2)
    for one in crowd:
        one.socket.close()
