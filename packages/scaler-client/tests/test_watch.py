"""What the IO thread sleeps on, with epoll and without."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from scaler_protocol.transport import watch
from scaler_protocol.transport.watch import Watch, _Descriptors, _new_descriptors, _Selected


@pytest.mark.parametrize("make", (_new_descriptors, _Selected))
def test_descriptors_tell_what_can_be_read(make: type[_Descriptors]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        descriptors = make()
        descriptors.register(ours.fileno(), watch._READ)
        assert not descriptors.poll(0)
        theirs.send(b"!")
        assert dict(descriptors.poll(None)) == {ours.fileno(): watch._READ}
        descriptors.unregister(ours.fileno())
        assert not descriptors.poll(0), "nobody watches it"
        descriptors.close()


class Endpoint:
    """As much of one as is watched."""

    def __init__(self, descriptor: int) -> None:
        self.generation = 1
        self.descriptor = descriptor

    def fileno(self) -> int:
        return self.descriptor


def test_a_socket_that_was_closed_meanwhile_is_let_go() -> None:
    """After several dials in one turn."""
    first, second = socket.socketpair()
    endpoint = Endpoint(first.fileno())
    watched = Watch()
    watched.follow(cast(Any, endpoint))
    first.close()
    endpoint.descriptor, endpoint.generation = second.fileno(), 2
    watched.follow(cast(Any, endpoint))
    assert watched.is_following(cast(Any, endpoint))
    watched.sleep(None)  # the other end is closed, which is something to be read
    watched.close()
    second.close()
