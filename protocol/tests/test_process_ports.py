"""Ports for servers that are started here."""

import socket

import pytest

from scaler_protocol.process import ports


def test_ports_in_a_row_that_nobody_has() -> None:
    first = ports.free_ports(3)
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for number, taken in enumerate((one, two, three)):
            taken.bind(("127.0.0.1", first + number))
        assert not ports.is_free(first)


def test_no_port_of_outgoing_connections() -> None:
    assert all(16_384 <= ports.free_ports(1) < 32_768 for _ in range(50))


def test_none_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port, host: False)
    with pytest.raises(OSError, match="no 2 free ports in a row"):
        ports.free_ports(2)
