"""Tickets that expire or are revoked, and keys that are replaced, over real sockets. (HSK-46, SES-31, SES-32, SEC-12,
SEC-20)"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.endpoints import Bench, bench_on
from tests.support.keyed import rejection, ring, ticket, write_keys, write_ticket

from scaler_protocol import codes
from scaler_protocol.keys import ALL_ROLES, find_pass, new_secret
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import ticket_text
from scaler_protocol.keys.tickets import ticket_id
from scaler_protocol.messages import Timers
from scaler_protocol.session import Lost


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Over ZeroMQ alone."""
    yield from bench_on("zeromq", monkeypatch)


def test_a_session_ends_when_its_ticket_expires(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring)
    dialer = bench.dialer(server.address, shown=ticket(keyring, codes.ROLE_CLIENT, expires=time.time() + 1.0))
    bench.open(dialer)
    bench.until(lambda: "Lost" in bench.kinds(dialer), "the end of the ticket")
    (lost,) = [event for event in bench.events[dialer] if isinstance(event, Lost)]
    assert lost.code == codes.UNAUTHORIZED and "expired" in lost.text


def test_a_session_ends_when_its_ticket_is_revoked(bench: Bench, tmp_path: Path) -> None:
    key, path = new_secret(), tmp_path / "cluster.key"
    write_keys(path, key)
    server = bench.server(keyring=ring(key, origin=str(path)))
    revoked, other = ticket(ring(key), codes.ROLE_CLIENT), ticket(ring(key), codes.ROLE_CLIENT)
    dialer, bystander = bench.dialer(server.address, shown=revoked), bench.dialer(server.address, shown=other)
    bench.open(dialer)
    bench.open(bystander)
    replace_file(str(tmp_path / "revoked"), f"{ticket_id(revoked.public_key)}\n".encode())
    bench.until(lambda: "Lost" in bench.kinds(dialer), "the end of the revoked ticket")
    (lost,) = [event for event in bench.events[dialer] if isinstance(event, Lost)]
    assert lost.code == codes.UNAUTHORIZED and "was revoked: ask the operator" in lost.text
    assert "was revoked" in rejection(bench, bench.dialer(server.address, shown=revoked)).text
    bench.ask(bystander, 1)
    bench.open(bench.dialer(server.address, shown=other))


def test_rotation_accepts_both_keys_until_the_old_one_is_taken_out(wire: Bench, tmp_path: Path) -> None:
    old, new = new_secret(), new_secret()
    path = tmp_path / "cluster.key"
    write_keys(path, old)
    server = wire.server(keyring=ring(old, origin=str(path)))
    further = server.listen_also("tcp://127.0.0.1:*")
    before = wire.dialer(server.address, shown=ring(old).own_pass())
    wire.open(before)

    write_keys(path, new, old)
    wire.until(lambda: len(server._server.admission.keyring.keys) == 2, "the server to notice")  # type: ignore[union-attr]
    during = wire.dialer(server.address, shown=ring(new, old).own_pass())
    wire.open(during)
    wire.ask(before, 1)

    write_keys(path, new)
    wire.until(lambda: "Lost" in wire.kinds(before), "the end of the session under the old key")
    (lost,) = [event for event in wire.events[before] if isinstance(event, Lost)]
    assert lost.code == codes.UNAUTHORIZED
    wire.ask(during, 2)
    after = wire.dialer(server.address, shown=ring(new).own_pass())
    wire.open(after)
    wire.open(wire.dialer(further, shown=ring(new).own_pass()))
    both = wire.dialer(server.address, shown=ring(new, old).own_pass())
    wire.open(both)  # it tries the old one first
    rejection(wire, wire.dialer(server.address, shown=ring(old).own_pass()))


def test_a_dialer_whose_ticket_was_replaced_learns_why_its_session_has_ended(wire: Bench, tmp_path: Path) -> None:
    """The server tells it, if the Error is quicker than the end of the connection; if not, the dialer finds it out."""
    old, new = new_secret(), new_secret()
    path, shown_path = tmp_path / "cluster.key", str(tmp_path / "ana.key")
    write_keys(path, old)
    server = wire.server(keyring=ring(old, origin=str(path)))
    replace_file(shown_path, ticket_text(ring(old).derive("ana", ALL_ROLES)).encode())
    dialer = wire.dialer(server.address, shown=find_pass(server.address, shown_path))
    wire.open(dialer)

    replace_file(shown_path, ticket_text(ring(new).derive("ana", ALL_ROLES)).encode())
    write_keys(path, new)
    wire.until(lambda: "Lost" in wire.kinds(dialer), "the end of the session under the old key")
    (lost,) = [event for event in wire.events[dialer] if isinstance(event, Lost)]
    told, found_out = "signed with another key, or one taken out since", "with which it was opened has been replaced"
    assert told in lost.text or found_out in lost.text, lost.text
    dialer.redial()  # as roles do; one that found it out has the session already
    wire.until(lambda: wire.kinds(dialer).count("Opened") == 2, "a session under the new key")
    wire.ask(dialer, 1)


def test_a_dialer_reads_its_file_again_before_it_gives_up(wire: Bench, tmp_path: Path) -> None:
    old, new = new_secret(), new_secret()
    path = tmp_path / "cluster.key"
    write_keys(path, old)
    shown = ring(old, origin=str(path)).own_pass()
    write_keys(path, new)
    server = wire.server(keyring=ring(new))
    dialer = wire.dialer(server.address, shown=shown)
    wire.open(dialer)


def test_a_ticket_that_is_refused_is_read_again_and_dialed_once_more(wire: Bench, tmp_path: Path) -> None:
    """(HSK-46)"""
    keyring, path = ring(), str(tmp_path / "ana.key")
    server = wire.server(keyring=keyring)
    write_ticket(path, keyring, expires=time.time() - 60)
    dialer = wire.dialer(server.address, shown=find_pass(server.address, path))
    write_ticket(path, keyring)
    wire.open(dialer)
    wire.ask(dialer, 1)
    assert server.received_counts["Hello"] == 2


def test_a_session_that_is_resumed_with_a_refused_ticket_begins_anew_with_the_next(wire: Bench, tmp_path: Path) -> None:
    """Both sides have lost the connection when the key is taken out, as happens when a server listens with another
    pair. The new ticket is of another holder."""
    old, new = new_secret(), new_secret()
    server, path = wire.server(keyring=ring(old)), str(tmp_path / "ana.key")
    write_ticket(path, ring(old))
    dialer = wire.dialer(server.address, shown=find_pass(server.address, path))
    wire.open(dialer)
    dialer._dialer.disconnected(time.monotonic())
    write_ticket(path, ring(new, old))
    server._server.admission.use(ring(new))
    wire.until(lambda: wire.kinds(dialer)[-2:] == ["Lost", "Opened"], "a session with the new ticket")
    wire.ask(dialer, 1)


def test_of_several_servers_each_is_tried_with_each_key(wire: Bench, tmp_path: Path) -> None:
    """A ticket of the time in which there were two keys names the older one first."""
    old, new = new_secret(), new_secret()
    path = str(tmp_path / "ana.key")
    write_ticket(path, ring(new, old))
    servers = [wire.server(keyring=ring(new)).address for _ in range(2)]
    wire.open(wire.dialer(",".join(servers), shown=find_pass(servers[0], path)))


def test_a_refused_ticket_is_shown_once_for_each_content_of_its_file(wire: Bench, tmp_path: Path) -> None:
    keyring, path = ring(), str(tmp_path / "ana.key")
    server = wire.server(keyring=keyring)
    write_ticket(path, keyring, expires=time.time() - 60)
    dialer = wire.dialer(server.address, shown=find_pass(server.address, path))
    write_ticket(path, keyring, expires=time.time() - 30)
    assert "expired" in rejection(wire, dialer).text
    assert server.received_counts["Hello"] == 2 and dialer.next_deadline() is None
    write_ticket(path, keyring)
    dialer.redial()
    wire.until(lambda: "Opened" in wire.kinds(dialer), "a session with the new ticket")


def test_a_ticket_by_a_key_that_the_server_has_not_read_yet_is_let_in(bench: Bench, tmp_path: Path) -> None:
    """Programs look at the file at other moments than the server."""
    old, new = new_secret(), new_secret()
    path = tmp_path / "cluster.key"
    write_keys(path, old)
    server = bench.server(keyring=ring(old, origin=str(path)), timers=Timers(heartbeat_seconds=1e6, lease_seconds=4e6))
    bench.open(bench.dialer(server.address, shown=ring(old).own_pass()))
    write_keys(path, new, old)
    bench.open(bench.dialer(server.address, shown=ring(new, old).own_pass()))
