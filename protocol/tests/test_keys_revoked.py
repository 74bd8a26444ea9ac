"""The list of revoked tickets beside a key file: its text, what a server reads of it and when (SEC-20)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.keys import Identity, KeyFileError, Keyring, KeyWatch, Refusal, find_keyring
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.grants import LOOK_SECONDS, Grants
from scaler_protocol.keys.texts import REVOKED_BYTES_MAX, REVOKED_MAX, key_text, revoked_in
from scaler_protocol.keys.tickets import ticket_id

KEY = bytes(range(32))
HOLDER, OTHER = b"\x01" * 32, b"\x02" * 32
ID = ticket_id(HOLDER)
NOW = 1_800_000_000.0
IDS = st.lists(st.binary(min_size=8, max_size=8).map(bytes.hex), max_size=20)
posix_only = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files")


class Place:
    """A key file, and the list beside it."""

    def __init__(self, folder: Path) -> None:
        self.key, self.list = str(folder / "cluster.key"), str(folder / "revoked")
        replace_file(self.key, key_text([KEY]).encode())

    def write(self, *lines: str) -> None:
        replace_file(self.list, "".join(f"{line}\n" for line in lines).encode())

    def keyring(self) -> Keyring:
        found = find_keyring(self.key)
        assert found is not None
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def sentence(content: bytes) -> str:
    with pytest.raises(KeyFileError) as caught:
        revoked_in(content, "/etc/revoked")
    assert "/etc/revoked" in str(caught.value)
    return str(caught.value)


def judged(keyring: Keyring, holder: bytes = HOLDER, expires: float = 0.0) -> Identity | Refusal:
    identity = Identity("ana", frozenset({codes.ROLE_CLIENT}), False, holder, expires)
    return keyring.admit(keyring.ticket(identity), holder, codes.ROLE_CLIENT, NOW)


# ------------------------------------------------------------ text


@given(IDS, st.sampled_from(["\n", "\r\n", "  \n\n", "\n# a comment, ü\n"]))
def test_ids_are_read_between_comments(ids: list[str], end: str) -> None:
    assert revoked_in("".join(f"{one}{end}" for one in ids).encode(), "it") == frozenset(ids)


@pytest.mark.parametrize("line", [ID[:-1], f"{ID}0", "A" * 16, f"{ID} {ID}", "x"])
def test_a_line_that_is_no_id_is_named_and_not_quoted(line: str) -> None:
    said = sentence(f"# first\n{ID}\n{line}\n".encode())
    assert "line 3 of" in said and "16 hexadecimal digits" in said
    assert ID not in said


@given(st.binary(max_size=100))
def test_any_bytes_are_ids_or_a_sentence(content: bytes) -> None:
    try:
        found = revoked_in(content, "it")
    except KeyFileError as error:
        assert str(error).isprintable()
    else:
        assert all(len(bytes.fromhex(one)) == 8 for one in found)


def test_a_list_has_bounds() -> None:
    ids = [f"{number:016x}" for number in range(REVOKED_MAX + 1)]
    assert len(revoked_in("\n".join(ids[1:]).encode(), "it")) == REVOKED_MAX
    assert f"{REVOKED_MAX + 1} ids" in sentence("\n".join(ids).encode())
    comment = b"#" * (REVOKED_BYTES_MAX - 17)
    assert revoked_in(comment + b"\n" + ID.encode(), "it") == {ID}
    assert "larger than" in sentence(comment + b"#\n" + ID.encode())
    assert "is not text" in sentence(b"\xff")


# ------------------------------------------------------------ admission


def test_a_revoked_ticket_is_refused_and_others_are_not() -> None:
    keyring = Keyring([KEY], revoked=frozenset({ID}))
    found = judged(keyring)
    assert found == Refusal(f"the ticket {ID} was revoked: ask the operator for a new one")
    assert isinstance(judged(keyring, OTHER), Identity)


def test_a_renewed_ticket_of_the_same_holder_is_revoked_with_it() -> None:
    found = judged(Keyring([KEY], revoked=frozenset({ID})), expires=NOW + 60)
    assert isinstance(found, Refusal) and "was revoked" in found.text


def test_another_clusters_ticket_or_another_holder_learns_nothing_of_the_list() -> None:
    keyring = Keyring([KEY], revoked=frozenset({ID}))
    identity = Identity("ana", frozenset({codes.ROLE_CLIENT}), False, HOLDER)
    for shown, holder in ((keyring.ticket(identity), OTHER), (Keyring([OTHER]).ticket(identity), HOLDER)):
        found = keyring.admit(shown, holder, codes.ROLE_CLIENT, NOW)
        assert isinstance(found, Refusal) and "revoked" not in found.text


# ------------------------------------------------------------ what a server reads


def test_a_server_begins_with_the_list(place: Place) -> None:
    assert place.keyring().revoked == frozenset()
    place.write("# of ana", ID)
    assert place.keyring().revoked == {ID}


def test_a_server_with_a_list_that_cannot_be_used_does_not_start(place: Place) -> None:
    place.write("nonsense")
    with pytest.raises(KeyFileError, match=r"line 1 of .*revoked"):
        place.keyring()


def test_keys_without_a_file_have_no_list() -> None:
    keyring = find_keyring(environment={"SCALER_KEY": key_text([KEY])})
    assert keyring is not None and keyring.revoked == frozenset()


def test_a_change_of_the_list_is_noticed_with_the_same_keys(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    watch = KeyWatch(place.keyring())
    assert watch.look() is None
    place.write(ID)
    found = watch.look()
    assert found is not None and found.revoked == {ID}
    assert (found.keys, found.origin) == ((KEY,), place.key)
    assert watch.look() is None
    place.write("# of ana", ID)
    assert watch.look() is None, "only a comment"
    place.write(ID, ticket_id(OTHER))
    replace_file(place.key, key_text([OTHER, KEY]).encode())
    both = watch.look()
    assert both is not None and both.keys == (OTHER, KEY) and both.revoked == {ID, ticket_id(OTHER)}
    place.write()
    emptied = watch.look()
    assert emptied is not None and emptied.revoked == frozenset() and emptied.keys == (OTHER, KEY)
    assert not caplog.records


def test_a_list_that_cannot_be_used_leaves_the_former_and_is_told_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write(ID)
    watch = KeyWatch(place.keyring())
    for damage in (b"nonsense\n", b"\xff", b"0" * 17):
        caplog.clear()
        replace_file(place.list, damage)
        assert watch.look() is None and watch.look() is None
        (said,) = caplog.messages
        assert said.startswith("the tickets that were revoked before stay revoked: ") and place.list in said
        assert watch.keyring.revoked == {ID}
    caplog.clear()
    os.unlink(place.list)
    assert watch.look() is None and watch.look() is None
    assert len(caplog.records) == 1, "a list that is gone revokes what it did: it may be about to be written"
    replace_file(place.key, key_text([OTHER, KEY]).encode())
    found = watch.look()
    assert found is not None and found.revoked == {ID}, "a key that is replaced lets no revoked ticket in"


@posix_only
def test_others_may_read_the_list_and_not_write_it(place: Place) -> None:
    place.write(ID)
    os.chmod(place.list, 0o644)
    assert place.keyring().revoked == {ID}
    os.chmod(place.list, 0o620)
    with pytest.raises(KeyFileError, match=r"can be written by other users \(mode 0620\): check what it holds and run"):
        place.keyring()
    os.unlink(place.list)
    os.symlink(place.key, place.list)
    with pytest.raises(KeyFileError, match="symbolic link"):
        place.keyring()


def test_a_revocation_ages_no_grant(place: Place) -> None:
    """Grants by former keys are good for a while: very many revocations must not push such a key out."""
    now, owner = [0.0], b"owner".ljust(16)
    grants = Grants(place.keyring(), lambda: now[0])
    replace_file(place.key, key_text([OTHER]).encode())
    for number in range(10):
        place.write(f"{number:016x}")
        now[0] += LOOK_SECONDS
        assert grants.family_of(owner, Keyring([OTHER]).grant(owner)) == owner
    assert grants.family_of(owner, Keyring([KEY]).grant(owner)) == owner
