"""Whatever a port does or leaves undone, no step of the suite waits for it without a bound."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from scaler_conformance.launch import Subject
from scaler_conformance.manifest import RoleEntry
from scaler_conformance.play import testee
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.host import Host
from scaler_conformance.play.pump import Pump
from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Unusable
from scaler_conformance.wire.keys import KEY_BYTES, ClusterKey

PATIENCE_SECONDS = 20.0


@pytest.fixture
def keyed_pump() -> Iterator[Pump]:
    pump = Pump(key=ClusterKey(secrets.token_bytes(KEY_BYTES)))
    yield pump
    pump.close()


@pytest.mark.timeout(60)
def test_a_hello_without_a_key_is_sent_when_the_server_has_refused_the_connection(keyed_pump: Pump) -> None:
    """libzmq gives such a connection up: a send that waits would wait for another one for ever."""
    server = Host(keyed_pump, Transcript("storage"), "storage")
    dialer = Dialer(keyed_pump, Transcript("storage"), "stranger", "client", server.address, "storage")
    dialer.shown = None
    line = dialer.connect()
    refused = keyed_pump.until(lambda: not line.socket.poll(0, zmq.POLLOUT), PATIENCE_SECONDS)
    assert refused, "libzmq has not given the connection up"
    for _ in range(3):
        dialer.say_hello()
    assert not keyed_pump.until(lambda: bool(dialer.inbox), 0.1)


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
