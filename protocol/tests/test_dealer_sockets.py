"""The sockets that a dialer leaves behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.support.endpoints import Bench, bench_on

from scaler_protocol.transport import sockets
from scaler_protocol.transport.zeromq import ZeroMqDealer


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Over ZeroMQ alone."""
    yield from bench_on("zeromq", monkeypatch)


@pytest.mark.parametrize("was_open", [True, False])
def test_a_socket_that_was_left_is_not_closed_in_the_middle_of_a_message(
    wire: Bench, monkeypatch: pytest.MonkeyPatch, was_open: bool
) -> None:
    """libzmq aborts the process if the connection breaks then."""
    closed: list[tuple[object, int]] = []
    close = ZeroMqDealer.close

    def noted(carrier: ZeroMqDealer, linger_milliseconds: int = sockets.LINGER_MILLISECONDS) -> None:
        closed.append((carrier, linger_milliseconds))
        close(carrier, linger_milliseconds)

    monkeypatch.setattr(ZeroMqDealer, "close", noted)
    server = wire.server()
    dialer = wire.dialer(server.address)
    if was_open:
        wire.open(dialer)
    else:
        dialer.poll(time.monotonic())
    old = dialer._carrier
    dialer._dialer.disconnected(time.monotonic())
    wire.until(lambda: bool(closed), "the socket that was left to be closed")
    assert closed == [(old, sockets.LINGER_MILLISECONDS if was_open else 0)]
    wire.open(dialer)
    wire.ask(dialer, 1)
