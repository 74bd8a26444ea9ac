"""Key files: their text, which of them may be read, and how they come to be (SEC-7, SEC-9, SEC-12)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler_protocol.keys import KeyFileError, Keyring, KeyWatch, TicketError, acl, files, pass_of
from scaler_protocol.keys.derivation import public_key
from scaler_protocol.keys.files import make_file, read_file, replace_file
from scaler_protocol.keys.handed import hand, read_handed
from scaler_protocol.keys.texts import KEYS_MAX, TEXT_BYTES_MAX, KeyText, TicketText, key_text, parsed, ticket_text
from scaler_protocol.keys.tickets import ALL_ROLES, read

KEYS = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=KEYS_MAX, unique=True)
COMMENTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=60)
KEY = bytes(range(32))
posix_only = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files")


def sentence(content: bytes) -> str:
    with pytest.raises(KeyFileError) as caught:
        parsed(content, "/etc/it.key")
    assert "/etc/it.key" in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------ texts


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(KEYS, COMMENTS)
def test_keys_are_read_as_they_were_written(keys: list[bytes], comment: str) -> None:
    assert parsed(key_text(keys, comment).encode(), "it") == KeyText(tuple(keys))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(KEYS, COMMENTS)
def test_tickets_are_read_as_they_were_written(keys: list[bytes], comment: str) -> None:
    made = Keyring(keys).derive("ana", ALL_ROLES, expires=5.0)
    assert parsed(ticket_text(made, comment).encode(), "it") == made
    assert len(ticket_text(made)) <= TEXT_BYTES_MAX


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(KEYS, st.data())
def test_a_truncated_key_file_is_a_sentence_or_has_fewer_keys(keys: list[bytes], data: st.DataObject) -> None:
    text = key_text(keys).encode()
    part = text[: data.draw(st.integers(0, len(text) - 2))]
    try:
        found = parsed(part, "it")
    except KeyFileError as error:
        assert_quotes_nothing(str(error), keys)
    else:
        assert isinstance(found, KeyText)
        assert found.keys == tuple(keys[: len(found.keys)])
        assert len(found.keys) < len(keys)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(KEYS, st.data())
def test_a_truncated_ticket_file_is_a_sentence(keys: list[bytes], data: st.DataObject) -> None:
    text = ticket_text(Keyring(keys).derive("ana", ALL_ROLES)).encode()
    part = text[: data.draw(st.integers(0, len(text) - 2))]
    sentence(part)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_flipped_bit_is_never_another_holder_or_ticket(data: st.DataObject) -> None:
    """Only the servers' public keys can be damaged unseen: then no server has them."""
    made = Keyring([KEY]).derive("ana", ALL_ROLES)
    text = bytearray(ticket_text(made).encode())
    bit = data.draw(st.integers(0, 8 * len(text) - 1))
    text[bit // 8] ^= 1 << bit % 8
    try:
        found = parsed(bytes(text), "it")
    except KeyFileError:
        return
    assert isinstance(found, TicketText)
    holder = read(found.ticket).holder == public_key(found.secret_key)
    assert holder
    is_admitted = Keyring([KEY]).admit(found.ticket, public_key(found.secret_key), 1, 0.0) == read(made.ticket)
    assert is_admitted or found.ticket != made.ticket


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=300))
def test_any_bytes_are_a_sentence(garbage: bytes) -> None:
    text = sentence(garbage)
    assert len(text) < 300
    assert text.isprintable()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text("0123456789abcdefABCDEF:-scalerkyti\n #\r", max_size=200))
def test_any_text_is_a_sentence_or_keys(text: str) -> None:
    for prefix in ("", "scaler-key-1:", "scaler-ticket-1:"):
        try:
            parsed((prefix + text).encode(), "it")
        except KeyFileError as error:
            assert str(error).isprintable()


def test_what_an_editor_does_to_a_file_does_no_harm() -> None:
    line = "scaler-key-1:" + KEY.hex()
    for text in (f"\n{line}", f"{line}\r\n", f"  {line}  \n\n# end\n", f"# a\n#b\n\n{line}"):
        assert parsed(text.encode(), "it") == KeyText((KEY,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no key"),
        ("# nothing\n", "holds no key"),
        (KEY.hex(), "line 1 of"),
        ("scaler-key-2:" + KEY.hex(), "is no key"),
        ("scaler-key-1:" + KEY.hex().upper(), "lower case"),
        ("scaler-key-1:" + KEY.hex()[:-1], "is no key"),
        ("scaler-key-1:" + KEY.hex() + "0", "is no key"),
        ("\n# x\nscaler-key-1:zz", "line 3 of"),
        (("scaler-key-1:" + KEY.hex() + "\n") * 2, "twice"),
        (key_text([bytes((number,)) * 32 for number in range(9)]), "more than 8"),
        ("#" * (TEXT_BYTES_MAX + 1), "larger than 4096"),
        ("scaler-ticket-1:", "damaged"),
        ("scaler-ticket-1:AAAA", "damaged"),
        ("scaler-ticket-1:A", "damaged"),
        (ticket_text(Keyring([KEY]).derive("ana", ALL_ROLES)) * 2, "one ticket"),
        (ticket_text(Keyring([KEY]).derive("ana", ALL_ROLES)) + key_text([KEY]), "one ticket"),
        (key_text([KEY]) + ticket_text(Keyring([KEY]).derive("ana", ALL_ROLES)), "line 2 of"),
        (ticket_text(Keyring([KEY]).derive("ana", ALL_ROLES)).strip() + "==", "damaged"),
        (ticket_text(TicketText((), KEY, Keyring([KEY]).own_pass().ticket)), "damaged"),
        (ticket_text(TicketText((KEY,), KEY, Keyring([KEY]).own_pass().ticket)), "damaged"),
        (ticket_text(TicketText((KEY,), KEY, b"\x07" * 90)), "version 7"),
    ],
)
def test_what_is_said_of_a_wrong_file(text: str, said: str) -> None:
    assert said in sentence(text.encode())


def assert_quotes_nothing(text: str, keys: list[bytes]) -> None:
    for key in keys:
        assert key.hex()[:16] not in text


def test_no_error_quotes_a_key_with_a_typing_error() -> None:
    assert_quotes_nothing(sentence(f"scaler-key-1:{KEY.hex()}x".encode()), [KEY])


def test_a_pass_of_a_ticket() -> None:
    made = Keyring([KEY]).derive("ana", frozenset({2}), expires=7.0)
    shown = pass_of(made, "/it")
    assert shown.public_key == read(shown.ticket).holder
    assert shown.origin == "/it"
    with pytest.raises(TicketError):
        Keyring([KEY]).derive("a\nb", ALL_ROLES)


# ------------------------------------------------------------ which files may be read


def private(path: Path, text: str = "") -> str:
    path.write_text(text or key_text([KEY]))
    path.chmod(0o600)
    if sys.platform == "win32":
        acl.keep_private(str(path))
    return str(path)


def refused(path: str | Path) -> str:
    with pytest.raises(KeyFileError) as caught:
        read_file(str(path))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_private_file_is_read(tmp_path: Path) -> None:
    path = private(tmp_path / "a.key")
    assert parsed(read_file(path), path) == KeyText((KEY,))


def test_no_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(str(tmp_path / "none"))


def test_a_link_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "a.key")
    (tmp_path / "link").symlink_to(tmp_path / "a.key")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("link", "loop", "nowhere"):
        assert "symbolic link" in refused(tmp_path / name)


@posix_only
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601, 0o660, 0o777])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "a.key")
    os.chmod(path, mode)
    assert f"chmod 600 {path}" in refused(path)
    assert f"{mode:04o}" in refused(path)


@posix_only
def test_another_users_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = private(tmp_path / "a.key")
    owner = os.stat(path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert f"another user (uid {owner})" in refused(path)


@posix_only
def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert "not a regular file" in refused(tmp_path / "fifo")
    assert "directory" in refused(tmp_path)
    assert refused("/dev/null")
    private(tmp_path / "a.key")
    assert "cannot be read" in refused(tmp_path / "a.key" / "b.key")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    assert "larger than 4096" in refused(private(tmp_path / "a.key", "#" * 4097))
    path = private(tmp_path / "huge")
    with open(path, "r+b") as file:
        file.truncate(1 << 40)
    assert "larger than 4096" in refused(path)


def test_windows_has_no_owners_modes_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as another system can show it: a link is refused by its look, everything else by what it is."""
    for name in ("_NO_LINK", "_NO_WAIT"):
        monkeypatch.setattr(files, name, 0)
    monkeypatch.delattr(os, "geteuid", raising=False)
    path = private(tmp_path / "a.key")
    os.chmod(path, 0o644)
    assert read_file(path)
    assert "directory" in refused(tmp_path)
    (tmp_path / "link").symlink_to(path)
    assert "symbolic link" in refused(tmp_path / "link")
    assert files.is_private_directory(str(tmp_path))


# ------------------------------------------------------------ making them


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert make_file(str(tmp_path / "a.key"), b"x")
        replace_file(str(tmp_path / "b.key"), b"y")
        files.make_directory(str(tmp_path / "deep" / "down"))
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("a.key", "b.key")] == [0o600, 0o600]
    assert files.is_private_directory(str(tmp_path / "deep" / "down"))


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    path.write_text("old")
    assert not make_file(str(path), b"new")
    assert path.read_text() == "old"
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert not make_file(str(tmp_path / "link"), b"new")
    assert not (tmp_path / "target").exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.key", "link"]


@pytest.mark.parametrize("has_links", [True, False])
def test_of_many_that_make_the_file_at_once_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def no_link(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_link)
    for round_number in range(20):
        path = str(tmp_path / f"{round_number}.key")
        start = threading.Barrier(8)

        def make(number: int, path: str = path, start: threading.Barrier = start) -> bool:
            start.wait(10)
            return make_file(path, b"%d" % number * 100)

        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(make, range(8)))
        assert made.count(True) == 1
        assert read_file(path) == b"%d" % made.index(True) * 100
    assert len(list(tmp_path.iterdir())) == 20


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for make in (make_file, replace_file):
        with pytest.raises(KeyFileError, match="cannot be made"):
            make(str(tmp_path / "missing" / "a.key"), b"")
    with pytest.raises(KeyFileError, match="cannot be made"):
        files.make_directory(str(tmp_path / "file" / "scaler"))
    with pytest.raises(KeyFileError, match="cannot be written"):
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "x").write_text("")
        replace_file(str(tmp_path / "full"), b"")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "full"]


def test_a_directory_that_others_can_see_into_is_not_private(tmp_path: Path) -> None:
    place = tmp_path / "there"
    place.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(place)
    assert files.is_private_directory(str(place))
    assert not files.is_private_directory(str(tmp_path / "link"))
    assert not files.is_private_directory(str(tmp_path / "missing"))
    place.chmod(0o750)
    assert not files.is_private_directory(str(place))


# ------------------------------------------------------------ handed by a parent


def test_a_key_in_a_pipe_is_read_once_and_kept() -> None:
    number = hand(key_text([KEY]).encode())
    for _ in range(2):
        assert read_handed(f"fd:{number}") == key_text([KEY]).encode()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize("name", ["fd:", "fd:x", "fd:-1", "fd:９", "fd:99999999999999999999", "fd:654321"])
def test_no_descriptor_is_a_sentence(name: str) -> None:
    with pytest.raises(KeyFileError):
        read_handed(name)


@posix_only
def test_a_child_reads_what_it_inherits() -> None:
    number = hand(b"text")
    code = f"from scaler_protocol.keys.handed import read_handed; print(read_handed('fd:{number}').decode())"
    ended = subprocess.run(
        [sys.executable, "-c", code], pass_fds=[number], capture_output=True, text=True, timeout=30, check=True
    )
    os.close(number)
    assert ended.stdout == "text\n"


# ------------------------------------------------------------ watching


def test_a_server_notices_that_its_keys_are_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, new = b"o" * 32, b"n" * 32
    path = private(tmp_path / "a.key", key_text([old]))
    watch = KeyWatch(Keyring([old], path))
    assert watch.look() is None
    replace_file(path, key_text([new, old]).encode())
    assert [found.keys for found in (watch.look(),) if found] == [(new, old)]
    assert watch.look() is None
    replace_file(path, key_text([new, old], "only a comment").encode())
    assert watch.look() is None
    replace_file(path, key_text([new]).encode())
    assert [found.keys for found in (watch.look(),) if found] == [(new,)]
    assert not caplog.records


def test_a_change_between_reading_and_watching_is_noticed(tmp_path: Path) -> None:
    path = private(tmp_path / "a.key", key_text([b"n" * 32]))
    found = KeyWatch(Keyring([b"o" * 32], path)).look()
    assert found is not None
    assert found.keys == (b"n" * 32,)


def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = private(tmp_path / "a.key")
    watch = KeyWatch(Keyring([KEY], path))
    for damage in (b"", b"nonsense", ticket_text(Keyring([KEY]).derive("ana", ALL_ROLES)).encode()):
        caplog.clear()
        replace_file(path, damage)
        assert watch.look() is None
        assert watch.look() is None
        assert len(caplog.records) == 1
    caplog.clear()
    os.unlink(path)
    assert watch.look() is None
    assert watch.look() is None
    assert len(caplog.records) == 1
    private(tmp_path / "a.key", key_text([b"n" * 32]))
    assert watch.look() is not None


def test_keys_without_a_file_never_change() -> None:
    assert KeyWatch(Keyring([KEY], "the variable SCALER_KEY")).look() is None
