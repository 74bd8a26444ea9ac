"""What commands are told about keys, and what they tell those that they start (SEC-15)."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from scaler_protocol import codes
from scaler_protocol.keys import KeyFileError, KeyOptions, Keyring, NoKeyFound, RuntimeFile, lookup
from scaler_protocol.keys import options as keys_options
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.files import read_descriptor, read_file, replace_file
from scaler_protocol.keys.texts import KeyText, TicketText, key_text, parsed, ticket_text
from scaler_protocol.keys.tickets import read

KEY = b"k" * 32
ADDRESS = "tcp://127.0.0.1:8516"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("scaler_protocol.secrets._taken", {})
    for name in ("SCALER_KEY_FILE", "SCALER_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("config", "run", "tmp", "logs"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "config"))  # the same on Windows
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def options(home: Path, text: str = "", name: str = "a.key") -> KeyOptions:
    path = home / name
    replace_file(str(path), (text or key_text([KEY])).encode())
    return KeyOptions(str(path))


def handed_text(arguments: list[str], descriptors: list[int]) -> bytes:
    """As the child reads it, which has a copy of the descriptor."""
    (argument,), (descriptor,) = arguments, descriptors
    assert argument == f"--key-file=fd:{descriptor}"
    return read_descriptor(os.dup(descriptor))


def is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def test_workers_get_a_ticket_and_never_the_key(home: Path) -> None:
    with options(home).for_worker(ADDRESS) as given:
        text = handed_text(*given)
        (descriptor,) = given[1]
    assert is_closed(descriptor)
    assert KEY.hex().encode() not in text
    found = parsed(text, "it")
    assert isinstance(found, TicketText)
    said = read(found.ticket)
    assert (said.user, said.roles, said.is_operator) == (account_name(), {codes.ROLE_WORKER}, False)
    assert found.server_keys == Keyring([KEY]).server_keys


def test_a_ticket_is_handed_on_as_it_is(home: Path) -> None:
    made = Keyring([KEY]).derive("ana", frozenset({codes.ROLE_WORKER, codes.ROLE_MANAGER}))
    with options(home, ticket_text(made)).for_worker(ADDRESS) as given:
        assert parsed(handed_text(*given), "it") == made


def test_a_ticket_that_is_not_for_workers_starts_none(home: Path) -> None:
    made = Keyring([KEY]).derive("ana", frozenset({codes.ROLE_MANAGER}))
    with (
        pytest.raises(KeyFileError, match="--role manager --role worker"),
        options(home, ticket_text(made)).for_worker(ADDRESS),
    ):
        pass


def test_what_is_insecure_stays_so_and_hands_nothing() -> None:
    with KeyOptions(insecure=True).for_worker(ADDRESS) as given:
        assert given == (["--insecure"], [])
    with KeyOptions(insecure=True).for_server(None) as given:
        assert given == (["--insecure"], [])
    assert KeyOptions(insecure=True).for_remote_workers(ADDRESS, "/missing") == ["--insecure"]


def test_other_servers_get_the_file_or_the_key(home: Path) -> None:
    given_options = options(home)
    with given_options.for_server(given_options.find_keyring()) as given:
        assert given == ([f"--key-file={home / 'a.key'}"], [])
    with KeyOptions().for_server(Keyring([KEY], "the variable SCALER_KEY")) as given:
        assert parsed(handed_text(*given), "it") == KeyText((KEY,))


def test_workers_elsewhere_read_a_file_that_stays(home: Path) -> None:
    path = str(home / "logs" / "worker.key")
    (argument,) = options(home).for_remote_workers(ADDRESS, path)
    assert argument == f"--key-file={path}"
    before = read_file(path)
    assert KEY.hex().encode() not in before
    assert options(home).for_remote_workers(ADDRESS, path) == [argument]
    assert read_file(path) == before, "jobs that were started before have read this one"


@pytest.mark.parametrize("change", ["rotated", "another user", "a key"])
def test_a_file_that_does_not_fit_any_more_is_written_anew(home: Path, change: str) -> None:
    path = str(home / "logs" / "worker.key")
    (argument,) = options(home).for_remote_workers(ADDRESS, path)
    assert argument == f"--key-file={path}"
    keyring = Keyring([b"n" * 32, KEY]) if change == "rotated" else Keyring([KEY])
    if change == "another user":
        other = keyring.derive("eve", frozenset({codes.ROLE_WORKER}))
        replace_file(path, ticket_text(other).encode())
    elif change == "a key":
        replace_file(path, key_text([KEY]).encode())
    assert options(home, key_text(keyring.keys)).for_remote_workers(ADDRESS, path) == [argument]
    found = parsed(read_file(path), "it")
    assert isinstance(found, TicketText)
    assert found.server_keys == keyring.server_keys
    assert read(found.ticket).user == account_name()


def test_a_file_that_others_can_read_is_never_used(home: Path) -> None:
    path = str(home / "logs" / "worker.key")
    options(home).for_remote_workers(ADDRESS, path)
    os.chmod(path, 0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        options(home).for_remote_workers(ADDRESS, path)


# ------------------------------------------------------------ waiting


def test_the_key_of_a_server_that_starts_later_is_waited_for(home: Path) -> None:
    file = RuntimeFile(ADDRESS)
    timer = threading.Timer(0.2, lambda: file.write(Keyring([KEY])))
    timer.start()
    try:
        shown = KeyOptions().find_pass(ADDRESS, 30)
    finally:
        timer.join()
        file.remove()
    assert shown is not None
    assert shown.server_keys == Keyring([KEY]).server_keys


def test_a_server_that_answers_and_has_no_key_for_us_is_not_waited_for_long() -> None:
    """It was started with --insecure, or by another user."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = time.monotonic()
        with pytest.raises(NoKeyFound):
            KeyOptions().find_pass(f"tcp://127.0.0.1:{server.getsockname()[1]}", 60)
        assert time.monotonic() - begun < 30


def test_a_wait_for_a_key_is_told_and_told_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keys_options, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(keys_options, "SILENT_AGAIN_SECONDS", 0.0)
    looks = iter([False, False, True])
    with pytest.raises(NoKeyFound):
        KeyOptions().find_pass(ADDRESS, 60, lambda: next(looks))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == 2 * [f"nothing answers at {ADDRESS} yet, and no key for it was found"]


def test_a_server_elsewhere_makes_no_key_here(home: Path) -> None:
    with pytest.raises(NoKeyFound):
        KeyOptions().find_pass("tcp://192.0.2.1:8516", 60)


def test_a_wait_can_be_ended() -> None:
    with pytest.raises(NoKeyFound):
        KeyOptions().find_pass(ADDRESS, 60, lambda: True)


def test_what_this_program_has_started_is_known_to_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a variable names the key of another cluster."""
    monkeypatch.setenv("SCALER_KEY", key_text([b"o" * 32]))
    lookup.own(ADDRESS, Keyring([KEY]))
    try:
        shown = lookup.find_pass(ADDRESS)
        named = lookup.find_pass(ADDRESS, options(home, key_text([b"n" * 32])).key_file)
    finally:
        lookup.own(ADDRESS, None)
    assert shown is not None
    assert shown.server_keys == Keyring([KEY]).server_keys
    assert named is not None
    assert named.server_keys == Keyring([b"n" * 32]).server_keys
    after = lookup.find_pass(ADDRESS)
    assert after is not None
    assert after.server_keys == Keyring([b"o" * 32]).server_keys
