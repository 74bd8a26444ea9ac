"""What users share: the first ones of each user, and further ones of all users (LIM-30, LIM-31)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol.session.bounds import Quota


def test_one_user_leaves_room_for_the_others() -> None:
    quota = Quota(first=2, further=3)
    assert quota.has_room({}, "ana", 5) and not quota.has_room({}, "ana", 6)
    assert not quota.has_room({"ana": 5}, "ana")
    assert quota.has_room({"ana": 5}, "bo", 2), "the first ones of each user are never refused"
    assert not quota.has_room({"ana": 5, "bo": 2}, "bo")
    assert quota.has_room({"ana": 4, "bo": 2}, "ana"), "bo's first ones take nothing from ana"


def test_without_keys_there_is_only_the_bound_for_all() -> None:
    quota = Quota(first=2, further=3)
    assert quota.has_room({"": 2}, "") and not quota.has_room({"": 3}, "")


@given(st.lists(st.tuples(st.sampled_from(("ana", "bo", "cy", "")), st.booleans())), st.integers(0, 3))
def test_whatever_users_do_all_bounds_hold(steps: list[tuple[str, bool]], first: int) -> None:
    """Users take and give back. What one user is given never depends on the others as long as it has few."""
    quota, counts = Quota(first, further=4), Counter[str]()
    for user, takes in steps:
        if not takes:
            counts[user] -= counts[user] > 0
            continue
        has_room = quota.has_room(counts, user)
        assert has_room or not user or counts[user] >= first
        counts[user] += has_room
        assert sum(counts.values()) <= 4 + first * len([one for one in counts if one])
