"""Grants while keys are replaced. (STO-34)"""

from __future__ import annotations

import os
from pathlib import Path

from scaler_protocol.keys import Keyring, families_of, grants, own_family
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


def test_a_family_tells_whose_it_is() -> None:
    """Of a user: no family of another user, none without a name, and none that names no user. (HSK-38, HSK-43)"""
    family = own_family(OWNER, "ana")
    head = families_of("ana")
    assert family.startswith(head) and own_family(b"j" * 16, "ana").startswith(head)
    assert not any(other.startswith(head) for other in (own_family(OWNER, "joe"), b"", family[:7], OWNER))
