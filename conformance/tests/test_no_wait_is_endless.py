"""Whatever a port does or leaves undone, no step of the suite waits for it without a bound."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import zmq

from scaler_conformance.launch import Subject
from scaler_conformance.manifest import RoleEntry
from scaler_conformance.play import testee
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.pump import Pump
from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Unusable

PATIENCE_SECONDS = 20.0
CURVE_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)


@pytest.mark.timeout(60)
def test_a_hello_is_sent_when_libzmq_has_given_the_connection_up() -> None:
    """It does so for good when the server speaks another mechanism: a send that waits would wait for ever."""
    pump = Pump()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        dialer = Dialer(pump, Transcript("storage"), "stranger", "client", address, "storage")
        line = dialer.connect()
        connection, _ = server.accept()
        with connection:
            connection.sendall(CURVE_GREETING)
            is_over = pump.until(lambda: not line.socket.poll(0, zmq.POLLOUT), PATIENCE_SECONDS)
            assert is_over, "libzmq has not given the connection up"
            dialer.say_hello()
    pump.close()


@pytest.mark.timeout(60)
def test_a_testee_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testee, "ANSWER_SECONDS", 0.3)
    command = (sys.executable, "-c", "import threading; threading.Event().wait()")
    pump = Pump()
    subject = Subject(RoleEntry(role="client", command=command, directory=Path.cwd()), {}, is_testee=True)
    try:
        deaf = testee.Testee(pump, subject, Transcript("client"))
        with pytest.raises(Unusable, match=r"has not read command 1, `submit`, within 0\.3 s"):
            deaf.tell("submit", arguments=["f" * 1_000_000])
    finally:
        subject.kill()
        pump.close()
