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


def test_who_listens_answers_and_a_probe_that_found_itself_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ports.answers(f"tcp://127.0.0.1:{port}")
    assert not ports.answers(f"tcp://127.0.0.1:{port}")

    def connected_to_itself(address: tuple[str, int], timeout: float) -> socket.socket:
        probe = socket.socket()
        probe.bind(("127.0.0.1", 0))
        probe.connect(probe.getsockname())
        return probe

    monkeypatch.setattr(socket, "create_connection", connected_to_itself)
    assert not ports.answers(f"tcp://127.0.0.1:{port}")
