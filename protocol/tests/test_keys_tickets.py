"""Tickets and keyrings: which dialers are admitted, and in which roles (SEC-8 to SEC-12)."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.keys import (
    ALL_ROLES,
    TICKET_BYTES_MAX,
    Identity,
    Keyring,
    Refusal,
    TicketError,
    keyring,
    local_identity,
)
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.derivation import derived, public_key
from scaler_protocol.keys.tickets import MAC_BYTES, USER_BYTES_MAX, check_user, read, signed

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
KEYRING = Keyring([KEY])
HOLDER = public_key(b"\x07" * 32)
NOW = 1_800_000_000.0

USERS = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), min_size=1, max_size=16).filter(
    lambda user: _is_user(user)
)
IDENTITIES = st.builds(
    Identity,
    user=USERS,
    roles=st.frozensets(st.integers(0, 14)),
    is_operator=st.booleans(),
    holder=st.binary(min_size=32, max_size=32),
    expires=st.integers(0, 1 << 53).map(float),
)


def _is_user(user: str) -> bool:
    try:
        check_user(user)
    except TicketError:
        return False
    return True


def ticket(user: str = "ana", roles: frozenset[int] = ALL_ROLES, expires: float = 0.0) -> bytes:
    return KEYRING.ticket(Identity(user, roles, False, HOLDER, expires))


# ------------------------------------------------------------ laws


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IDENTITIES)
def test_a_ticket_says_what_was_written_into_it(identity: Identity) -> None:
    written = signed(identity, KEY)
    assert read(written) == identity
    assert len(written) <= 76 + USER_BYTES_MAX <= TICKET_BYTES_MAX


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IDENTITIES, st.data())
def test_no_flipped_bit_is_admitted(identity: Identity, data: st.DataObject) -> None:
    identity = replace(identity, roles=identity.roles | {codes.ROLE_CLIENT})
    right = KEYRING.ticket(identity)
    assert KEYRING.admit(right, identity.holder, codes.ROLE_CLIENT, -1.0) == identity
    bit = data.draw(st.integers(0, 8 * len(right) - 1))
    wrong = bytearray(right)
    wrong[bit // 8] ^= 1 << bit % 8
    for role in ALL_ROLES:
        assert isinstance(KEYRING.admit(bytes(wrong), identity.holder, role, -1.0), Refusal)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IDENTITIES, st.data())
def test_no_part_of_a_ticket_is_admitted(identity: Identity, data: st.DataObject) -> None:
    right = KEYRING.ticket(identity)
    part = right[: data.draw(st.integers(0, len(right) - 1))]
    assert isinstance(KEYRING.admit(part, identity.holder, codes.ROLE_CLIENT, NOW), Refusal)
    assert isinstance(KEYRING.admit(right + b"\0", identity.holder, codes.ROLE_CLIENT, NOW), Refusal)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_sentence(garbage: bytes) -> None:
    refusal = KEYRING.admit(garbage, HOLDER, codes.ROLE_CLIENT, NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.text.isprintable()
    assert len(refusal.text) < 300


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_what_is_derived_differs_by_key_and_label(one: bytes, other: bytes) -> None:
    labels = (b"scaler curve 1", b"scaler ticket 1", b"scaler grant 1")
    made = [derived(key, label) for key in {one, other} for label in labels]
    assert len({*made, one, other}) == len(made) + len({one, other})


# ------------------------------------------------------------ admission


def test_the_holder_is_admitted() -> None:
    found = KEYRING.admit(ticket(), HOLDER, codes.ROLE_WORKER, NOW)
    assert found == Identity("ana", ALL_ROLES, False, HOLDER, 0.0)


@pytest.mark.parametrize(
    ("shown", "holder", "role", "said"),
    [
        (b"", HOLDER, codes.ROLE_CLIENT, "asks for a key"),
        (ticket(), public_key(b"\x08" * 32), codes.ROLE_CLIENT, "another holder"),
        (ticket(), b"", codes.ROLE_CLIENT, "another holder"),
        (ticket(roles=frozenset({codes.ROLE_WORKER})), HOLDER, codes.ROLE_CLIENT, "for worker, and not for client"),
        (ticket(roles=frozenset()), HOLDER, codes.ROLE_CLIENT, "for nothing, and not for client"),
        (ticket(), HOLDER, 9, "and not for role 9"),
        (ticket(), HOLDER, 15, "and not for role 15"),
        (ticket(), HOLDER, 65_535, "and not for role 65535"),
        (ticket(expires=NOW), HOLDER, codes.ROLE_CLIENT, "expired"),
        (ticket(expires=NOW - 1), HOLDER, codes.ROLE_CLIENT, "expired"),
        (signed(Identity("ana", ALL_ROLES, True, HOLDER), OTHER), HOLDER, codes.ROLE_CLIENT, "not this cluster's"),
        # Signed with the key itself, or with what another purpose has of it.
        (signed(Identity("ana", ALL_ROLES, True, HOLDER), KEY), HOLDER, codes.ROLE_CLIENT, "not this cluster's"),
        (
            signed(Identity("ana", ALL_ROLES, True, HOLDER), derived(KEY, b"scaler grant 1")),
            HOLDER,
            codes.ROLE_CLIENT,
            "not this cluster's",
        ),
        (b"\x02" + ticket()[1:], HOLDER, codes.ROLE_CLIENT, "version 2"),
    ],
)
def test_refusals(shown: bytes, holder: bytes, role: int, said: str) -> None:
    refusal = KEYRING.admit(shown, holder, role, NOW)
    assert isinstance(refusal, Refusal)
    assert said in refusal.text


def test_a_ticket_is_good_until_it_expires() -> None:
    found = KEYRING.admit(ticket(expires=NOW), HOLDER, codes.ROLE_CLIENT, NOW - 0.5)
    assert isinstance(found, Identity)
    assert not found.is_expired(NOW - 0.5)
    assert found.is_expired(NOW)
    assert not Identity("ana", ALL_ROLES, False, HOLDER).is_expired(1e18)


def test_a_fraction_of_a_second_is_not_for_ever() -> None:
    assert read(ticket(expires=0.25)).expires == 1.0


@pytest.mark.parametrize(
    "user", ["", "a" * 65, "é" * 33, "a\nb", "\x1b[31m", " ana", "ana ", "a\u202eb", "a\u2028b", "\ud800", "a\x7f"]
)
def test_names_that_no_ticket_is_written_for(user: str) -> None:
    with pytest.raises(TicketError) as caught:
        ticket(user)
    assert str(caught.value).isascii()


def test_a_signed_name_that_would_forge_a_line_is_refused_all_the_same() -> None:
    content = bytearray(ticket("a.b")[:-MAC_BYTES])
    content[content.index(b".")] = ord("\n")
    from scaler_protocol.keys.derivation import mac

    shown = bytes(content) + mac(derived(KEY, b"scaler ticket 1"), bytes(content))
    assert isinstance(KEYRING.admit(shown, HOLDER, codes.ROLE_CLIENT, NOW), Refusal)


@pytest.mark.parametrize("role", [-1, 15, 16])
def test_roles_that_have_no_bit(role: int) -> None:
    with pytest.raises(TicketError, match="no role"):
        ticket(roles=frozenset({role}))


# ------------------------------------------------------------ what holders of the key have


def test_an_own_pass_opens_everything() -> None:
    shown = KEYRING.own_pass()
    assert shown.server_keys == (KEYRING.curve_public,)
    assert public_key(shown.secret_key) == shown.public_key
    for role in ALL_ROLES:
        found = KEYRING.admit(shown.ticket, shown.public_key, role, NOW)
        assert found == Identity(account_name(), ALL_ROLES, True, shown.public_key, 0.0)
    assert KEYRING.own_pass().public_key != shown.public_key
    assert KEYRING.own_pass(shown.secret_key).public_key == shown.public_key


def test_the_local_lane_has_all_rights_of_this_user() -> None:
    assert local_identity() == Identity(account_name(), ALL_ROLES, True, b"")


def test_nothing_shows_or_pickles_a_secret() -> None:
    shown = KEYRING.own_pass()
    for secret in (KEY, KEYRING.curve_secret, shown.secret_key, shown.ticket):
        for text in (repr(shown), repr(KEYRING), str(shown)):
            assert secret.hex() not in text
            assert repr(secret) not in text
    for value in (shown, KEYRING):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(value)


# ------------------------------------------------------------ grants


def test_a_grant_that_was_found_right_is_remembered_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    ring = Keyring([KEY])
    is_mac = keyring.is_mac
    monkeypatch.setattr(keyring, "is_mac", lambda *arguments: checks.append(1) or is_mac(*arguments))
    owner, other = b"o" * 16, b"p" * 16
    grant = ring.grant(owner)
    assert [ring.family_of(owner, grant) for _ in range(3)] == [owner] * 3 and len(checks) == 1
    assert ring.family_of(other, grant) is None and ring.family_of(owner, ring.grant(other)) is None
    assert Keyring([OTHER]).family_of(owner, grant) is None
    for number in range(3_000):
        one = number.to_bytes(16, "little")
        assert ring.family_of(one, ring.grant(one)) == one
    assert len(ring._granted) <= 1_024, "a peer that holds many owners does not make it grow"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_a_grant_is_for_one_owner(owner: bytes, other: bytes) -> None:
    grant = KEYRING.grant(owner)
    assert len(grant) == 16
    assert KEYRING.family_of(owner, grant) == owner
    assert KEYRING.family_of(other, grant) == (owner if owner == other else None)
    for wrong in (b"", grant[:-1], grant + b"\0", bytes(16), Keyring([OTHER]).grant(owner)):
        assert KEYRING.family_of(owner, wrong) is None
    nested = KEYRING.grant(owner, other)
    assert len(nested) == 32 and KEYRING.family_of(owner, nested) == other
    for wrong in (nested[:16], nested[16:], nested[:-1], nested + b"\0", owner + nested[16:], other + grant):
        assert KEYRING.family_of(owner, wrong) == (other if wrong == nested else None)


# ------------------------------------------------------------ rotation


def test_while_there_are_two_keys_both_are_accepted_and_the_oldest_listens() -> None:
    before, while_both, after = Keyring([OTHER]), Keyring([KEY, OTHER]), Keyring([KEY])
    assert while_both.curve_public == before.curve_public
    assert while_both.server_keys == (before.curve_public, after.curve_public)
    role = codes.ROLE_CLIENT
    for shown in (before.own_pass(), while_both.own_pass(), after.own_pass()):
        assert isinstance(while_both.admit(shown.ticket, shown.public_key, role, NOW), Identity)
    old, new = before.own_pass(), while_both.own_pass()
    assert isinstance(after.admit(old.ticket, old.public_key, role, NOW), Refusal)
    assert isinstance(after.admit(new.ticket, new.public_key, role, NOW), Identity)
    assert while_both.family_of(b"o" * 16, before.grant(b"o" * 16)) == b"o" * 16
    assert while_both.grant(b"o" * 16) == after.grant(b"o" * 16)
    assert after.family_of(b"o" * 16, before.grant(b"o" * 16)) is None
