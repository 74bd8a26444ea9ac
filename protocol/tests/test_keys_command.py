"""`scaler_key`, as people type it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scaler_protocol import codes
from scaler_protocol.keys import Identity, Keyring, RuntimeFile, find_keyring, issued
from scaler_protocol.keys.__main__ import main
from scaler_protocol.keys.files import make_file, read_file, replace_file
from scaler_protocol.keys.roles import ROLES
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

    def derived(self, name: str, *arguments: object) -> str:
        """Derives a ticket; its id."""
        path = self.home / f"{name}.key"
        self.run("derive", *arguments, "-o", path)
        return ticket_id(read(ticket_in(path).ticket).holder)

    def table(self) -> dict[str, tuple[str, ...]]:
        """Rows of `list` by id: in columns, with two spaces or more between them."""
        titles, *rows = self.run("list").splitlines()
        assert titles.split() == ["id", "user", "roles", "expires", "state"]
        return {row[0]: tuple(row[1:]) for row in (re.split(" {2,}", row) for row in rows)}

    def expiry(self, named: str) -> str:
        return self.table()[named][2]

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


# ------------------------------------------------------------ tickets that were issued, and that are revoked


def test_what_was_derived_is_listed_with_its_state(shell: Shell) -> None:
    shell.run("make")
    assert "no ticket of" in shell.run("list")
    ana = shell.derived("ana", "--role", "client", "-r", "worker", "--user", "ana banana", "--operator")
    bob = shell.derived("bob", "--role", "monitor", "--user", "bob", "--days", "90")
    assert shell.table() == {
        ana: ("ana banana", "client, worker, operator", "never", "valid"),
        bob: ("bob", "monitor", shell.expiry(bob), "valid"),
    }
    assert shell.expiry(bob).startswith("20") and shell.expiry(bob).endswith(" UTC")
    assert stat.S_IMODE((shell.configured.parent / "issued").stat().st_mode) == 0o600 or os.name != "posix"
    shell.run("rotate")
    cal = shell.derived("cal", "--role", "client", "--user", "cal")
    shell.run("rotate", "--finish")
    states = {named: row[-1] for named, row in shell.table().items()}
    assert states == {ana: "key replaced", bob: "key replaced", cal: "valid"}


def test_an_expired_ticket_is_listed_as_expired(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run("make")
    ana = shell.derived("ana", "-r", "client", "--user", "ana", "--days", "1")
    now = time.time() + 86_402
    monkeypatch.setattr("scaler_protocol.keys.management.time.time", lambda: now)
    assert shell.table()[ana][-1] == "expired"
    shell.run("revoke", ana)
    assert shell.table()[ana][-1] == "revoked"


def test_a_ticket_is_revoked_once(shell: Shell) -> None:
    shell.run("make")
    ana = shell.derived("ana", "-r", "client", "--user", "ana")
    bob = shell.derived("bob", "-r", "worker", "--user", "bob")
    said = shell.run("revoke", ana)
    assert f"revoked {ana}: client of ana\n" in said and "servers that use" in said
    place = shell.configured.parent / "revoked"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600 or os.name != "posix"
    before = place.read_bytes()
    assert f"{ana} was revoked before" in shell.run("revoke", ana, ana)
    assert place.read_bytes() == before
    assert {named: row[-1] for named, row in shell.table().items()} == {ana: "revoked", bob: "valid"}
    keyring = find_keyring(str(shell.configured))
    assert keyring is not None and keyring.revoked == {ana}


def test_a_ticket_of_elsewhere_can_be_revoked_and_comments_stay(shell: Shell) -> None:
    path = shell.home / "named.key"
    shell.run("make", path)
    place = shell.home / "revoked"
    assert make_file(str(place), b"# left in May: 1111111111111111\n2222222222222222")
    assert "check that the id is right" in shell.run("revoke", "3" * 16, "--key-file", path)
    assert place.read_text() == f"# left in May: {'1' * 16}\n{'2' * 16}\n{'3' * 16}\n"
    rows = shell.run("list", path).splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["2" * 16, "3" * 16]
    assert all(row.endswith("revoked; issued elsewhere") for row in rows[1:])


@pytest.mark.parametrize("named", ["", "ana", "1" * 15, "G" * 16, "A" * 16, "\x1b[31m"])
def test_what_is_no_id_revokes_nothing(shell: Shell, named: str) -> None:
    shell.run("make")
    said = shell.fail("revoke", "1" * 16, named)
    assert "is no id of a ticket, which is 16 hexadecimal digits" in said and "\x1b" not in said
    assert not (shell.configured.parent / "revoked").exists()


def test_a_list_that_is_damaged_or_full_is_left_as_it_is(shell: Shell) -> None:
    shell.run("make")
    place = shell.configured.parent / "revoked"
    for content, said in (
        (b"nonsense\n", "line 1 of"),
        ("".join(f"{number:016x}\n" for number in range(10_000)).encode(), "10001 ids"),
        (b"#" * ((2 << 20) - 1) + b"\n", "take comments out"),
    ):
        replace_file(str(place), content)
        assert said in shell.fail("revoke", "f" * 16)
        assert place.read_bytes() == content


def test_the_list_of_issued_tickets_is_bounded(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tickets that have expired leave it first, and then the oldest."""
    monkeypatch.setattr(issued, "ISSUED_MAX", 3)
    key, names = str(shell.configured), "abcdef"
    shell.run("make")
    lines = [issued.Issued(name * 16, 5.0 if name == "c" else 0.0, "client", "0" * 8, "ana") for name in names]
    for line in lines:
        issued.record(key, line, 10.0)
        found = issued.read_issued(issued.issued_beside(key))
        assert found[-1] == line and len(found) <= 3
        if line.id[0] == "d":
            assert "".join(one.id[0] for one in found) == "abd"
    assert "".join(one.id[0] for one in found) == "def"


def test_a_full_list_of_issued_tickets_can_be_read(shell: Shell) -> None:
    roles = ", ".join([*ROLES, "operator"])
    longest = issued.Issued("f" * 16, float(1 << 53), roles, "0" * 8, "u" * 64)
    assert len(issued._issued_text([longest] * issued.ISSUED_MAX)) < 2 << 20


def test_a_ticket_is_made_also_where_it_cannot_be_listed(
    shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("make")
    replace_file(str(shell.configured.parent / "issued"), b"nonsense\n")
    path = shell.home / "ana.key"
    assert main(["derive", "-r", "client", "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    named = ticket_id(read(ticket_in(path).ticket).holder)
    assert f"id {named}" in out
    assert err.startswith(f"ticket {named} is not in the list of issued tickets: line 1 of ")
    assert "line 1 of" in shell.fail("list")
    monkeypatch.setattr("scaler_protocol.secrets._taken", {})
    monkeypatch.setenv("SCALER_KEY", key_text([KEY]))
    assert main(["derive", "-r", "client"]) == 0
    assert "is in no file" in capsys.readouterr().err
    assert "is in no file" in shell.fail("list")
    assert "is in no file" in shell.fail("revoke", "1" * 16)


@pytest.mark.skipif(os.name != "posix", reason="locks of files")
def test_commands_at_once_lose_no_revocation(shell: Shell) -> None:
    shell.run("make")
    ids = [f"{number:016x}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: issued.revoke(str(shell.configured), [one]), ids))
    keyring = find_keyring(str(shell.configured))
    assert keyring is not None and keyring.revoked == set(ids)


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
