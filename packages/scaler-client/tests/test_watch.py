"""What the IO thread sleeps on, with epoll and without."""

from __future__ import annotations

import socket

import pytest

from scaler.client import watch
from scaler.client.watch import _Descriptors, _new_descriptors, _Selected


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
