"""Where keys are looked for, in which order, and that nothing wrong is passed over (SEC-7, SEC-13)."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zmq

from scaler_protocol import secrets
from scaler_protocol.addresses import parse_address
from scaler_protocol.keys import (
    ALL_ROLES,
    KeyFileError,
    Keyring,
    NoKeyFound,
    Pass,
    RuntimeFile,
    find_keyring,
    find_pass,
    management,
    places,
    renewed,
)
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.handed import hand
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.process.ports import free_ports

ADDRESS = "tcp://127.0.0.1:8516"
AWAY = "tcp://192.0.2.1:8516"
KEYS = {name: bytes((number,)) * 32 for number, name in enumerate(("argument", "path", "text", "running", "config"), 1)}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; nothing of this machine's user is seen."""
    for name in ("config", "run", "tmp"):
        (tmp_path / name).mkdir(mode=0o700)
    for name in (places.FILE_VARIABLE, places.TEXT_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "config"))  # the same on Windows
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def write(path: Path, key: bytes) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(str(path), key_text([key]).encode())
    return str(path)


def config(home: Path) -> Path:
    return home / "config" / "scaler" / "cluster.key"


def running(home: Path) -> Path:
    return home / "run" / "scaler" / "tcp-8516.key"


def which(shown: Pass | None) -> str:
    assert shown is not None
    return next(name for name, key in KEYS.items() if shown.server_keys == Keyring([key]).server_keys)


# ------------------------------------------------------------ the order


def test_the_first_place_that_has_one_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argument = write(home / "argument.key", KEYS["argument"])
    write(running(home), KEYS["running"])
    write(config(home), KEYS["config"])
    monkeypatch.setenv("SCALER_KEY_FILE", write(home / "path.key", KEYS["path"]))
    monkeypatch.setenv("SCALER_KEY", key_text([KEYS["text"]]))
    assert which(find_pass(ADDRESS, argument)) == "argument"
    assert which(find_pass(ADDRESS, Path(argument))) == "argument"
    assert which(find_pass(ADDRESS)) == "path"
    monkeypatch.delenv("SCALER_KEY_FILE")
    assert which(find_pass(ADDRESS)) == "text"
    monkeypatch.setenv("SCALER_KEY", "")  # as compose files write what is not given
    assert which(find_pass(ADDRESS)) == "running"
    running(home).unlink()
    assert which(find_pass(ADDRESS)) == "config"
    config(home).unlink()
    with pytest.raises(NoKeyFound, match=r"copy .*cluster.key from the machine of its scheduler"):
        find_pass(ADDRESS)


@pytest.mark.parametrize("address", ["tcp://localhost:8516", "tcp://[::1]:8516", "tcp://127.5.5.5:8516"])
def test_a_running_server_is_found_by_any_local_name(home: Path, address: str) -> None:
    write(running(home), KEYS["running"])
    assert which(find_pass(address)) == "running"


def test_a_server_elsewhere_has_no_file_here(home: Path) -> None:
    write(running(home), KEYS["running"])
    write(config(home), KEYS["config"])
    assert which(find_pass(AWAY)) == "config"
    assert which(find_pass("tcp://127.0.0.1:8517")) == "config"


def test_a_server_looks_in_the_same_places_but_at_no_running_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(running(home), KEYS["running"])
    write(config(home), KEYS["config"])

    def found(key_file: str | None = None) -> bytes:
        keyring = find_keyring(key_file)
        assert keyring is not None
        return keyring.keys[0]

    assert found() == KEYS["config"]
    monkeypatch.setenv("SCALER_KEY", key_text([KEYS["text"]]))
    assert found() == KEYS["text"]
    monkeypatch.setenv("SCALER_KEY_FILE", write(home / "path.key", KEYS["path"]))
    assert found() == KEYS["path"]
    assert found(write(home / "argument.key", KEYS["argument"])) == KEYS["argument"]


# ------------------------------------------------------------ never a fallback


@pytest.mark.parametrize("damage", ["missing", "open", "link", "nonsense", "directory"])
@pytest.mark.parametrize("place", ["argument", "path", "running", "config"])
def test_what_is_wrong_is_never_passed_over(
    home: Path, monkeypatch: pytest.MonkeyPatch, place: str, damage: str
) -> None:
    write(config(home), KEYS["config"])
    path = {"running": running(home), "config": config(home)}.get(place, home / "named.key")
    write(path, KEYS["text"])
    if damage == "open":
        path.chmod(0o644)
    else:
        path.unlink()
    if damage == "link":
        path.symlink_to(write(home / "target.key", KEYS["text"]))
    elif damage == "nonsense":
        replace_file(str(path), b"nonsense")
    elif damage == "directory":
        path.mkdir(mode=0o700)
    elif damage == "missing" and place in ("running", "config"):
        return  # where none was named, none is an answer
    if place == "path":
        monkeypatch.setenv("SCALER_KEY_FILE", str(path))
    argument = str(path) if place == "argument" else None
    with pytest.raises(KeyFileError, match=str(path)):
        find_pass(ADDRESS, argument)
    if place != "running":
        with pytest.raises(KeyFileError, match=str(path)):
            find_keyring(argument)


def test_a_text_that_is_no_key_is_never_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(config(home), KEYS["config"])
    secret = KEYS["text"].hex()
    monkeypatch.setenv("SCALER_KEY", secret)
    with pytest.raises(KeyFileError, match="the variable SCALER_KEY") as caught:
        find_pass(ADDRESS)
    assert secret not in str(caught.value)


def test_a_text_that_a_command_has_taken_out_of_its_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_taken", {})
    monkeypatch.setenv(places.TEXT_VARIABLE, key_text([KEYS["text"]]))
    secrets.take_secrets()
    assert places.TEXT_VARIABLE not in os.environ
    assert which(find_pass(ADDRESS)) == "text"


def test_an_empty_name_is_a_mistake(home: Path) -> None:
    for find in (lambda: find_pass(ADDRESS, ""), lambda: find_keyring("")):
        with pytest.raises(KeyFileError, match="name of the key file is empty"):
            find()


def test_insecure_needs_no_key_and_takes_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(home / "a.key", KEYS["argument"])
    monkeypatch.setenv("SCALER_KEY_FILE", "/missing")
    assert find_pass(ADDRESS, insecure=True) is None
    assert find_keyring(insecure=True) is None
    for find in (lambda: find_pass(ADDRESS, path, True), lambda: find_keyring(path, True)):
        with pytest.raises(KeyFileError, match="exclude each other"):
            find()


# ------------------------------------------------------------ tickets


def test_a_ticket_is_for_dialers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Keyring([KEYS["text"]]).derive("ana", ALL_ROLES)
    monkeypatch.setenv("SCALER_KEY", ticket_text(made))
    shown = find_pass(ADDRESS)
    assert shown is not None
    assert shown.ticket == made.ticket
    with pytest.raises(KeyFileError, match="a server needs the cluster's key"):
        find_keyring()


# ------------------------------------------------------------ the key that the first server makes


def test_the_first_server_makes_the_key(home: Path) -> None:
    made = find_keyring()
    assert made is not None
    assert made.origin == str(config(home))
    assert config(home).stat().st_mode & 0o777 == 0o600
    assert config(home).parent.stat().st_mode & 0o777 == 0o700
    again = find_keyring()
    assert again is not None
    assert again.keys == made.keys
    shown = find_pass(AWAY)
    assert shown is not None
    assert shown.server_keys == made.server_keys


@pytest.mark.parametrize("has_links", [True, False])
def test_servers_that_start_at_once_have_one_key(home: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    if not has_links:

        def no_link(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_link)
    for _ in range(10):
        config(home).unlink(missing_ok=True)
        start = threading.Barrier(6)

        def find(_: int, start: threading.Barrier = start) -> bytes:
            start.wait(10)
            keyring = find_keyring()
            assert keyring is not None
            return keyring.keys[0]

        with ThreadPoolExecutor(6) as threads:
            assert len(set(threads.map(find, range(6)))) == 1


def test_a_server_without_a_home_says_what_it_needs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "file"))
    with pytest.raises(KeyFileError, match="file/scaler"):
        find_keyring()


def test_a_home_that_cannot_be_written_is_told_with_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", read_only)
    with pytest.raises(KeyFileError, match=r"scaler cannot be made: Read-only.*name a key file .*--key-file"):
        find_keyring()


@pytest.mark.parametrize("home_variable", ["", "here"])
def test_an_account_without_a_home_is_told_so(home: Path, monkeypatch: pytest.MonkeyPatch, home_variable: str) -> None:
    """As in a container whose user is a number: no directory called "~" or "here" appears where it works."""
    monkeypatch.chdir(home)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", home_variable)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    before = sorted(home.rglob("*"))
    with pytest.raises(KeyFileError, match=r"no home directory .*name a key file .*--key-file"):
        find_keyring()
    with pytest.raises(NoKeyFound, match=r"copy its cluster\.key .*key_file="):
        find_pass(AWAY)
    with pytest.raises(KeyFileError, match="name the file to make"):
        management.make(places.configured_key())
    with pytest.raises(NoKeyFound, match="no key yet: "):
        management.show(None)
    assert sorted(home.rglob("*")) == before


def test_a_file_system_without_modes_gets_no_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some that are shared with other systems: every account could read the file."""
    real_open = os.open

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real_open(path, flags, mode)
        if flags & os.O_CREAT:
            os.fchmod(descriptor, 0o644)
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(KeyFileError, match=r"cluster\.key cannot be written: .*choose another directory.*--key-file"):
        find_keyring()
    assert not list(config(home).parent.iterdir())


def test_relative_places_are_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.configured_key({"XDG_CONFIG_HOME": "here", "HOME": "/h"}) == ("/h/.config/scaler/cluster.key")


def test_where_keys_are_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    data = {"LOCALAPPDATA": "/data", "XDG_CONFIG_HOME": "/elsewhere", "XDG_RUNTIME_DIR": "/elsewhere"}
    assert places.configured_key(data) == os.path.join("/data", "scaler", "cluster.key")
    assert list(places._runtime_candidates(data)) == [os.path.join("/data", "scaler", "run")]


# ------------------------------------------------------------ the file of a running server


def test_a_running_server_tells_this_users_programs_its_key(home: Path) -> None:
    file = RuntimeFile("tcp://0.0.0.0:8516")
    file.write(Keyring([KEYS["running"]]))
    assert file.path == str(running(home))
    assert running(home).stat().st_mode & 0o777 == 0o600
    assert which(find_pass(ADDRESS)) == "running"
    file.write(Keyring([KEYS["text"]]))
    assert which(find_pass(ADDRESS)) == "text"
    file.remove()
    file.remove()
    assert not running(home).exists()
    assert [entry.name for entry in running(home).parent.iterdir()] == []


def test_a_stale_file_is_written_over_and_a_newer_one_is_not_removed(home: Path) -> None:
    first, second = RuntimeFile(ADDRESS), RuntimeFile(ADDRESS)
    first.write(Keyring([KEYS["running"]]))  # killed
    second.write(Keyring([KEYS["text"]]))
    first.remove()
    assert which(find_pass(ADDRESS)) == "text"
    second.remove()
    assert not running(home).exists()


@pytest.mark.skipif(os.name != "posix", reason="whether a process lives is not asked for on Windows")
def test_what_a_killed_server_has_left_counts_last(home: Path) -> None:
    """A forwarded port, or another server, may be there by now."""
    RuntimeFile(ADDRESS).write(Keyring([KEYS["running"]]))
    write(config(home), KEYS["config"])
    assert which(find_pass(ADDRESS)) == "running"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    text = running(home).read_text()
    assert f"process {os.getpid()}," in text
    replace_file(str(running(home)), text.replace(f"process {os.getpid()},", f"process {gone.pid},").encode())
    assert which(find_pass(ADDRESS)) == "config"
    config(home).unlink()
    assert which(find_pass(ADDRESS)) == "running", "better than none: it may be a process of another container"


def test_a_socket_path_has_a_file_of_its_own(home: Path) -> None:
    file = RuntimeFile("ipc:///tmp/it")
    file.write(Keyring([KEYS["running"]]))
    assert which(find_pass("ipc:///tmp/it")) == "running"
    assert which(find_pass("ipc:///tmp/../tmp/it")) == "running"
    assert places.runtime_name(parse_address("ipc:///tmp/it")) != places.runtime_name(parse_address("ipc:///tmp/its"))


def test_another_users_directory_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(places, "_runtime_candidates", lambda _: [str(home / "tmp" / "scaler-0")])
    planted = home / "tmp" / "scaler-0"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    write(planted / "tcp-8516.key", KEYS["running"])
    write(config(home), KEYS["config"])
    assert which(find_pass(ADDRESS)) == "config"
    file = RuntimeFile(ADDRESS)
    file.write(Keyring([KEYS["text"]]))
    assert file.path == ""
    assert "name the key file" in caplog.text
    file.remove()


def test_without_a_runtime_directory_the_temporary_one_serves(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "missing"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() if os.getuid() else 0)
    is_dir = os.path.isdir
    monkeypatch.setattr(places.os.path, "isdir", lambda path: not str(path).startswith("/run") and is_dir(path))
    file = RuntimeFile(ADDRESS)
    file.write(Keyring([KEYS["running"]]))
    assert file.path == str(home / "tmp" / f"scaler-{os.getuid()}" / "tcp-8516.key")
    assert not (home / "missing").exists()
    assert which(find_pass(ADDRESS)) == "running"


# ------------------------------------------------------------ renewing, handing, libzmq


def test_a_pass_is_renewed_after_a_rotation(home: Path) -> None:
    path = write(home / "a.key", KEYS["path"])
    before = find_pass(ADDRESS, path)
    assert before is not None
    replace_file(path, key_text([KEYS["text"], KEYS["path"]]).encode())
    after = renewed(before)
    assert after.server_keys == Keyring([KEYS["text"], KEYS["path"]]).server_keys
    assert (after.public_key, after.secret_key) == (before.public_key, before.secret_key)
    replace_file(path, b"nonsense")
    assert renewed(after) is after
    os.unlink(path)
    assert renewed(after) is after
    made = Keyring([KEYS["text"]]).derive("ana", ALL_ROLES)
    replace_file(path, ticket_text(made).encode())
    assert renewed(after).ticket == made.ticket


@pytest.mark.skipif(os.name != "posix", reason="whether a process lives is not asked for on Windows")
def test_the_next_server_removes_the_keys_of_those_that_were_killed(home: Path) -> None:
    """Each cluster of a program has ports of its own, so that no later server takes the name. A server of another
    container lives although its process is out of sight."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        addresses = {
            "killed": f"tcp://127.0.0.1:{free_ports(1)}",
            "killed, by path": f"ipc://{home}/no-socket",
            "out of sight": f"tcp://127.0.0.1:{listening.getsockname()[1]}",
            "alive": f"tcp://127.0.0.1:{free_ports(1)}",
        }
        paths = {}
        for name, address in addresses.items():
            file = RuntimeFile(address)
            file.write(Keyring([KEYS["running"]]))
            paths[name] = Path(file.path)
        for name in set(paths) - {"alive"}:
            text = paths[name].read_text().replace(f"process {os.getpid()},", f"process {gone.pid},")
            replace_file(str(paths[name]), text.encode())
        (paths["alive"].parent / "of-another-program.key").write_text("nothing of ours")
        RuntimeFile(ADDRESS).write(Keyring([KEYS["running"]]))
        assert {name for name, path in paths.items() if path.exists()} == {"out of sight", "alive"}
        assert (paths["alive"].parent / "of-another-program.key").exists()


@pytest.mark.parametrize("is_there", (False, True))
def test_a_key_that_a_server_makes_is_told(home: Path, caplog, is_there: bool) -> None:
    if is_there:
        write(config(home), KEYS["config"])
    with caplog.at_level(logging.INFO):
        find_keyring()
    told = [record.getMessage() for record in caplog.records]
    assert [str(config(home)) in line for line in told] == ([] if is_there else [True])


def test_a_pass_that_was_searched_for_is_searched_for_again(home: Path) -> None:
    """A worker that was started before its scheduler found the key of the configuration directory."""
    write(config(home), KEYS["config"])
    before = find_pass(ADDRESS)
    assert which(before) == "config"
    assert before is not None
    file = RuntimeFile(ADDRESS)
    file.write(Keyring([KEYS["running"]]))
    after = renewed(before)
    assert which(after) == "running"
    assert after.public_key == before.public_key
    file.remove()
    config(home).unlink()
    assert renewed(after) is after


def test_a_pass_from_no_file_stays_as_it_is(home: Path) -> None:
    shown = Keyring([KEYS["text"]], "the variable SCALER_KEY").own_pass()
    assert renewed(shown) is shown


def test_a_handed_key_is_found_each_time(home: Path) -> None:
    name = f"fd:{hand(key_text([KEYS['argument']]).encode())}"
    assert which(find_pass(ADDRESS, name)) == "argument"
    keyring = find_keyring(name)
    assert keyring is not None
    assert keyring.keys == (KEYS["argument"],)


@pytest.mark.parametrize(("version", "has_curve", "said"), [((4, 3, 2), True, "4.3.3"), ((4, 3, 5), False, "CURVE")])
def test_a_libzmq_that_will_not_do_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], has_curve: bool, said: str
) -> None:
    monkeypatch.setattr(zmq, "zmq_version_info", lambda: version)
    monkeypatch.setattr(zmq, "has", lambda _: has_curve)
    for find in (lambda: find_pass(ADDRESS), find_keyring):
        with pytest.raises(KeyFileError, match=said):
            find()
    assert find_pass(ADDRESS, insecure=True) is None
