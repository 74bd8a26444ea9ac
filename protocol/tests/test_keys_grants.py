"""What grants say, and which are good while keys are replaced. (SEC-11, SEC-21, STO-34)"""

from __future__ import annotations

import os
from pathlib import Path

from scaler_protocol.ids import PeerId, family_in
from scaler_protocol.keys import (
    ALL_ROLES,
    ANY_USER,
    Granted,
    Identity,
    Keyring,
    families_of,
    grants,
    lent_end,
    lent_to,
    local_identity,
    own_family,
)
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.grants import GRACE_SECONDS, LOOK_SECONDS, Grants
from scaler_protocol.keys.texts import key_text

OLD, NEW, LATER = (bytes((letter,)) * 32 for letter in b"onl")
OWNER = b"owner".ljust(16)


class Told:
    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.path = folder / "cluster.key"
        self.write(OLD)
        self.grants = Grants(Keyring([OLD], str(self.path)), lambda: self.now)

    def write(self, *keys: bytes) -> None:
        replace_file(str(self.path), key_text(list(keys)).encode())

    def accepts(self, key: bytes) -> bool:
        return self.grants.family_of(OWNER, Keyring([key]).grant(OWNER)) == OWNER


def test_a_key_is_good_as_soon_as_it_is_in_the_file(tmp_path: Path) -> None:
    told = Told(tmp_path)
    assert told.accepts(OLD) and not told.accepts(NEW)
    told.write(NEW, OLD)
    assert told.accepts(NEW) and told.accepts(OLD)


def test_a_key_that_was_taken_out_is_good_for_a_while(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for keys in ((NEW, OLD), (NEW,), (LATER, NEW), (LATER,)):
        told.write(*keys)
        told.now += LOOK_SECONDS
        assert told.accepts(keys[0])
    assert told.accepts(OLD) and told.accepts(NEW)
    told.now += GRACE_SECONDS - 2 * LOOK_SECONDS
    assert told.accepts(NEW) and not told.accepts(OLD)
    told.now += 2 * LOOK_SECONDS
    assert told.accepts(LATER) and not told.accepts(NEW) and not told.accepts(OLD)


def test_a_removal_is_noticed_though_all_grants_are_good(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.write(NEW)
    told.now = LOOK_SECONDS
    assert told.accepts(OLD), "for a while longer"
    told.now = LOOK_SECONDS + GRACE_SECONDS
    assert not told.accepts(OLD)


def test_keys_of_very_many_rotations_are_not_kept(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for number in range(20):
        told.write(bytes((number,)) * 32)
        assert told.accepts(bytes((number,)) * 32)
    assert not told.accepts(OLD) and len(told.grants._former) == grants._FORMER
    os.unlink(told.path)
    assert told.accepts(bytes((19,)) * 32), "a file that is gone changes nothing"


def test_a_lent_grant_says_for_whom_until_when_and_what_for() -> None:
    """And nothing of it can be changed. (SEC-21)"""
    ring, family, joe = Keyring([OLD]), own_family(OWNER, "ana"), families_of("joe")
    lent = ring.lend(OWNER, family, joe, 1_000)
    assert ring.granted(OWNER, lent) == Granted(family, joe, is_lent=True, may_release=False, ends=1_000)
    assert family_in(lent, PeerId(OWNER)) == family and len(lent) == 49
    for at in range(len(lent)):
        changed = lent[:at] + bytes((lent[at] ^ 1,)) + lent[at + 1 :]
        assert ring.granted(OWNER, changed) is None, at
    other = b"other".ljust(16)
    for owner, grant in ((other, lent), (OWNER, lent[:-1]), (OWNER, lent + b"\0"), (OWNER + family, lent[16:])):
        assert ring.granted(owner, grant) is None
    own = ring.grant(OWNER, family)
    assert ring.granted(OWNER, own[:16] + lent[16:33] + own[16:]) is None
    assert ring.granted(OWNER, lent[:16] + lent[33:]) is None, "without its terms it is no own grant"
    in_task = ring.lend(OWNER, family, joe, 0, may_release=True)
    assert ring.granted(OWNER, in_task) == Granted(family, joe, is_lent=True)


def test_an_own_grant_is_for_the_user_of_its_family() -> None:
    ring, family = Keyring([OLD]), own_family(OWNER, "ana")
    assert ring.granted(OWNER, ring.grant(OWNER, family)) == Granted(family, families_of("ana"))
    assert not Granted(family, families_of("ana")).has_ended(1e12)


def test_what_is_lent_on_one_day_ends_with_the_day_a_week_later() -> None:
    """So all tasks of a day have one header. (OWN-24)"""
    day = 86_400
    assert lent_end(0.0) == lent_end(day - 0.1) == 8 * day and lent_end(day) == 9 * day
    lent = Granted(b"f" * 16, b"u" * 8, is_lent=True, ends=8 * day)
    assert not lent.has_ended(8 * day - 1) and lent.has_ended(8 * day)


def test_whom_a_grant_is_lent_to() -> None:
    """On the local lane a peer has no ticket, and at another host's storage it may have another name. (OWN-24)"""
    joe = Identity("joe", ALL_ROLES, False, b"h" * 32)
    assert lent_to(None) == b"" and lent_to(joe) == families_of("joe")
    assert lent_to(local_identity()) == ANY_USER == bytes(8)


def test_a_lent_grant_is_good_while_keys_are_replaced(tmp_path: Path) -> None:
    told = Told(tmp_path)
    lent = Keyring([NEW]).lend(OWNER, own_family(OWNER, "ana"), ANY_USER, 5)
    assert told.grants.read(OWNER, lent) is None
    told.write(NEW)
    granted = told.grants.read(OWNER, lent)
    assert granted is not None and granted.ends == 5
    assert told.grants.family_of(OWNER, lent) == own_family(OWNER, "ana")


def test_a_family_tells_whose_it_is() -> None:
    """Of a user: no family of another user, none without a name, and none that names no user. (HSK-38, HSK-43)"""
    family = own_family(OWNER, "ana")
    head = families_of("ana")
    assert family.startswith(head) and own_family(b"j" * 16, "ana").startswith(head)
    assert not any(other.startswith(head) for other in (own_family(OWNER, "joe"), b"", family[:7], OWNER))
