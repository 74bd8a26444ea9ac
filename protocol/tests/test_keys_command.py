"""`scaler_key`, as people type it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scaler_protocol import codes
from scaler_protocol.keys import Identity, Keyring, RuntimeFile
from scaler_protocol.keys.__main__ import main
from scaler_protocol.keys.files import make_file, read_file
from scaler_protocol.keys.texts import KeyText, TicketText, key_text, parsed, ticket_text
from scaler_protocol.keys.tickets import read, ticket_id

KEY = b"k" * 32


class Shell:
    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.configured = home / "config" / "scaler" / "cluster.key"
        self._capsys = capsys

    def run(self, *arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 0
        out, err = self._capsys.readouterr()
        assert not err
        return self.without_secrets(out)

    def fail(self, *arguments: object, code: int = 1) -> str:
        try:
            found = main([str(argument) for argument in arguments])
        except SystemExit as error:
            assert isinstance(error.code, int)
            found = error.code
        assert found == code
        out, err = self._capsys.readouterr()
        assert not out
        assert err.count("\n") == 1
        return self.without_secrets(err)

    def without_secrets(self, text: str) -> str:
        for path in self.home.rglob("*.key"):
            found = parsed(path.read_bytes(), "it") if path.stat().st_mode & 0o777 == 0o600 else None
            for key in found.keys if isinstance(found, KeyText) else ():
                assert key.hex() not in text
        return text

    def keyring(self, path: Path | None = None) -> Keyring:
        found = parsed(read_file(str(path or self.configured)), "it")
        assert isinstance(found, KeyText)
        return Keyring(found.keys)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in ("SCALER_KEY_FILE", "SCALER_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "config"))  # the same on Windows
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(tmp_path, capsys)


def ticket_in(path: Path) -> TicketText:
    found = parsed(read_file(str(path)), "it")
    assert isinstance(found, TicketText)
    return found


def test_a_key_is_made_once(shell: Shell) -> None:
    assert str(shell.configured) in shell.run("make")
    before = shell.keyring().keys
    assert "is there already" in shell.fail("make")
    assert shell.keyring().keys == before
    other = shell.home / "other.key"
    shell.run("make", other)
    assert shell.keyring(other).keys != before


def test_a_key_for_containers_goes_to_standard_output(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make", "-"]) == 0
    assert isinstance(parsed(capsys.readouterr().out.encode(), "it"), KeyText)
    assert not shell.configured.exists()


def test_what_is_shown_of_a_key_and_of_its_tickets_agrees(shell: Shell) -> None:
    made = shell.run("make")
    name = made.split()[-1]
    assert f"the key of cluster {name}" in shell.run("show")
    ticket = shell.home / "ana.key"
    said = shell.run("derive", "--role", "worker", "-r", "client", "--user", "ana", "--days", "90", "-o", ticket)
    assert "client, worker of ana, until 20" in said
    shown = shell.run("show", ticket)
    assert f"a ticket for cluster {name}" in shown
    named = ticket_id(read(ticket_in(ticket).ticket).holder)
    assert f", id {named}" in said
    for word in (f"id       {named}", "ana", "client, worker", "UTC"):
        assert word in shown
    assert "operator" not in shown


def test_a_ticket_admits_as_it_says(shell: Shell) -> None:
    shell.run("make")
    path = shell.home / "ana.key"
    shell.run("derive", "--role", "worker", "--user", "ana", "--days", "0.5", "--output", path)
    ticket = ticket_in(path)
    holder = read(ticket.ticket).holder
    admitted = shell.keyring().admit(ticket.ticket, holder, codes.ROLE_WORKER, time.time())
    assert isinstance(admitted, Identity)
    assert (admitted.user, admitted.roles, admitted.is_operator) == ("ana", {codes.ROLE_WORKER}, False)
    assert abs(admitted.expires - time.time() - 43_200) < 60
    assert ticket.server_keys == shell.keyring().server_keys
    shell.run("derive", "--role", "client", "--operator", "-o", shell.home / "op.key")
    operator = read(ticket_in(shell.home / "op.key").ticket)
    assert operator.is_operator
    assert operator.expires == 0.0


def test_a_ticket_is_never_written_over_a_file(shell: Shell) -> None:
    shell.run("make")
    assert "is there already" in shell.fail("derive", "-r", "worker", "-o", shell.configured)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_what_the_shell_redirects_is_private_all_the_same(shell: Shell) -> None:
    shell.run("make")
    path = shell.home / "worker.key"
    command = [sys.executable, "-m", "scaler_protocol.keys", "derive", "--role", "worker"]
    before = os.umask(0o022)
    try:
        with path.open("w") as file:
            subprocess.run(command, stdout=file, timeout=60, check=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "can be used: as worker of" in shell.run("check", path)


def test_a_rotation(shell: Shell) -> None:
    shell.run("make")
    (old,) = shell.keyring().keys
    said = shell.run("rotate")
    assert f"scaler_key rotate --finish {shell.configured}" in said
    new, also_old = shell.keyring().keys
    assert also_old == old
    assert shell.run("show").count("the key of cluster") == 2
    assert "took 1 old key out" in shell.run("rotate", "--finish")
    assert shell.keyring().keys == (new,)
    assert "nothing to take out" in shell.run("rotate", "--finish", shell.configured)
    for _ in range(7):
        shell.run("rotate")
    assert "--finish" in shell.fail("rotate")
    assert len(shell.keyring().keys) == 8
    assert stat.S_IMODE(shell.configured.stat().st_mode) == 0o600
    assert [path.name for path in shell.configured.parent.iterdir()] == ["cluster.key"]


def test_checking(shell: Shell) -> None:
    assert "scaler_key make" in shell.fail("check")
    shell.run("make")
    assert shell.run("check") == f"{shell.configured} can be used\n"
    shell.configured.chmod(0o640)
    assert "chmod 600" in shell.fail("check")
    shell.configured.chmod(0o600)
    expired = shell.home / "old.key"
    made = shell.keyring().derive("ana", frozenset({codes.ROLE_WORKER}), expires=time.time() - 1)
    assert make_file(str(expired), ticket_text(made).encode())
    assert "expired on 20" in shell.fail("check", expired)
    assert "(expired)" in shell.run("show", expired)


def test_checking_what_an_address_would_be_shown(shell: Shell) -> None:
    address = "tcp://127.0.0.1:8516"
    assert f"no key for {address} was found" in shell.fail("check", "--address", address)
    file = RuntimeFile(address)
    file.write(Keyring([KEY]))
    assert shell.run("check", "--address", address).startswith(f"{file.path} can be used: as client, worker")
    file.remove()
    shell.run("make")
    assert str(shell.configured) in shell.run("check", "--address", address)
    shell.fail("check", "--address", "nonsense", code=2)
    shell.fail("check", shell.configured, "--address", address, code=2)


def test_variables_name_the_file_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shell.home / "named.key"
    shell.run("make", path)
    monkeypatch.setenv("SCALER_KEY_FILE", str(path))
    assert shell.run("check") == f"{path} can be used\n"
    assert len(shell.keyring(path).keys) == 1
    shell.run("rotate")
    assert len(shell.keyring(path).keys) == 2


def test_what_is_in_a_variable_cannot_be_rotated(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler_protocol.secrets._taken", {})
    monkeypatch.setenv("SCALER_KEY", key_text([KEY]))
    assert "is in no file" in shell.fail("rotate")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "COMMAND"),
        (("mak",), "invalid choice"),
        (("derive",), "--role"),
        (("derive", "-r", "king"), "king"),
        (("derive", "-r", "worker", "--days", "0"), "number of days"),
        (("derive", "-r", "worker", "--days", "nan"), "number of days"),
        (("derive", "-r", "worker", "--user", "a\nb"), "--user"),
        (("derive", "-r", "worker", "--user", "u" * 65), "64 bytes"),
    ],
)
def test_mistakes_of_typing(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    shell.run("make")
    assert said in shell.fail(*arguments, code=2)


@pytest.mark.parametrize("command", ["derive", "rotate"])
def test_a_ticket_is_no_key(shell: Shell, command: str) -> None:
    shell.run("make")
    path = shell.home / "ana.key"
    shell.run("derive", "-r", "worker", "-o", path)
    assert "holds a ticket" in shell.fail(command, *(("-r", "worker") if command == "derive" else ()), path)


@pytest.mark.parametrize("command", ["show", "rotate", "check"])
def test_no_such_file(shell: Shell, command: str) -> None:
    assert "there is no key file" in shell.fail(command, shell.home / "missing.key")
