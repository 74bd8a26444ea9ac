"""Keys of the hostile peers: none in a cluster without keys; in one with a key none, wrong ones, or tickets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import zmq

from scaler_protocol.codes import ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.ids import new_routing_id
from scaler_protocol.keys import ALL_ROLES, Keyring, Pass, new_secret, pass_of
from scaler_protocol.keys.files import read_file, replace_file
from scaler_protocol.keys.texts import KeyText, key_text, parsed, ticket_text
from scaler_protocol.transport.curve import dial_with
from tests.fuzz import sealed
from tests.fuzz.curve import CurveWire
from tests.fuzz.sealed import SealedWire
from tests.fuzz.wire import Wire

#: insecure: a cluster without keys. The others, in one with a key: a stranger; a ticket of another role than the one
#: that is claimed; a ticket of that role.
ACCESS = ("insecure", "stranger", "other-role", "holder")


def _keys_of(path: str) -> Sequence[bytes]:
    """Those in the file, which the process that judges has made for the attackers; a new one if there is no file."""
    if not Path(path).exists():
        return [new_secret()]
    found = parsed(read_file(path), path)
    assert isinstance(found, KeyText)
    return found.keys


class Access:
    def __init__(self, kind: str, directory: Path) -> None:
        assert kind in ACCESS
        self.kind = kind
        self.key_file, self.worker_file = str(directory / "cluster.key"), str(directory / "worker.key")
        self._keyring = Keyring(_keys_of(self.key_file))
        self._passes: dict[int, Pass] = {}
        self._wrong = Keyring([new_secret()]).own_pass()
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None  #: made by the attackers only
        if not self.is_insecure and not Path(self.key_file).exists():
            worker = self._keyring.derive("worker", frozenset({ROLE_WORKER}))
            replace_file(self.key_file, key_text(self._keyring.keys).encode())
            replace_file(self.worker_file, ticket_text(worker).encode())

    @property
    def is_insecure(self) -> bool:
        return self.kind == "insecure"

    @property
    def may_have_sessions(self) -> bool:
        return self.kind in ("insecure", "holder")

    def arguments(self, *, is_worker: bool = False) -> tuple[str, ...]:
        """For our own commands, which are let in."""
        if self.is_insecure:
            return ("--insecure",)
        return ("--key-file", self.worker_file if is_worker else self.key_file)

    def user_file(self, user: str, directory: Path) -> str:
        """The file of a client of a user of its own, who is not hostile."""
        path = str(directory / f"{user}.key")
        replace_file(path, ticket_text(self._keyring.derive(user, frozenset({ROLE_CLIENT}))).encode())
        return path

    # ------------------------------------------------------------ of the hostile peers

    def ticket(self, role: int) -> bytes:
        """What a Hello with this role shows."""
        return b"" if self.kind in ("insecure", "stranger") else self._pass(role).ticket

    def connect(self, port: int, role: int) -> Wire | CurveWire:
        if self.kind in ("insecure", "stranger"):
            return Wire(port)
        return self.connect_with(port, self._pass(role))

    def pass_for(self, roles: frozenset[int], expires: float = 0.0) -> Pass:
        """Of the hostile user: a ticket for these roles, of a pair of its own."""
        return pass_of(self._keyring.derive("mallory", roles, expires=expires), "fuzz")

    def by_hand(self, port: int) -> Wire:
        """A connection on which also commands of ZMTP can be said."""
        if self.kind in ("insecure", "stranger") or not sealed.is_possible():
            return Wire(port)
        shown = self._pass(ROLE_CLIENT)
        return SealedWire(port, shown.server_keys[0], (shown.public_key, shown.secret_key))

    def connect_with(self, port: int, shown: Pass) -> CurveWire:
        if self._context is None:
            self._context = zmq.Context()
            self._context.set(zmq.MAX_SOCKETS, 4096)
        return CurveWire(port, shown, self._context)

    def dealer(self, context: zmq.Context[zmq.Socket[bytes]], port: int, role: int) -> zmq.Socket[bytes]:
        """As a true program dials, with what the hostile peers have; strangers have the wrong key."""
        dialer = context.socket(zmq.DEALER)
        dialer.setsockopt(zmq.ROUTING_ID, new_routing_id())
        if not self.is_insecure:
            shown = self._wrong if self.kind == "stranger" else self._pass(role)
            dial_with(dialer, shown)
        dialer.connect(f"tcp://127.0.0.1:{port}")
        return dialer

    def _pass(self, role: int) -> Pass:
        shown_role = role if self.kind == "holder" else role % max(ALL_ROLES) + 1
        if shown_role not in self._passes:
            ticket = self._keyring.derive("mallory", frozenset({shown_role}))
            self._passes[shown_role] = pass_of(ticket, "fuzz")
        return self._passes[shown_role]

    def close(self) -> None:
        if self._context is not None:
            self._context.destroy(500)
