"""What a task asks of its worker, what a worker offers, and which tasks are of one class (SCH-12, SCH-39)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from scaler_protocol.messages import Capability, TaskHeader

Requirement = tuple[Capability, ...]
"""Everything that a worker must offer: the capabilities of a task, and the code that its processors must read."""


CODE = "\0code:"
"""Code stands among capabilities under a name that begins like this, as no capability of a user does: so everything
that places tasks by what workers offer places them by their code too. (SCH-39)"""


ANY_CODE = CODE
"""What a worker offers that does not say which code it reads."""


FEATURE_CODE_SETS = "code-sets"


CODE_SETS = "\0" + FEATURE_CODE_SETS
"""What a worker offers whose session has that feature, and a task asks for that has a code set. (SCH-39)"""


def offered(capabilities: Mapping[str, int], code_tags: Iterable[str], *, takes_code_sets: bool) -> dict[str, int]:
    """All that a worker offers, as `offers` compares it."""
    offer = {**capabilities, **dict.fromkeys([CODE + tag for tag in code_tags] or [ANY_CODE], -1)}
    if takes_code_sets:
        offer[CODE_SETS] = -1
    return offer


def offers(offer: Mapping[str, int], requirement: Requirement) -> bool:
    """Names must all be offered; an amount needs at least that much, unless the offer is uncounted (-1). (SCH-12)"""
    for item in requirement:
        amount = offer.get(item.name)
        if amount is None:
            if ANY_CODE not in offer or not item.name.startswith(CODE):
                return False
        elif item.amount > 0 and 0 <= amount < item.amount:
            return False
    return True


@lru_cache(maxsize=256)
def _asked(name: str) -> Requirement:
    return (Capability(name),)


def named_by_user(requirement: Requirement) -> Requirement:
    """Without the code, which no user asks for by name."""
    return tuple([item for item in requirement if not item.name.startswith("\0")])


class ClassKey(NamedTuple):
    """Tasks of one class are of one user, equally urgent, and may go to the same workers."""

    negative_depth: int
    negative_priority: int
    requirement: Requirement
    user: str = ""

    @property
    def is_nested(self) -> bool:
        return self.negative_depth < 0

    @property
    def urgency(self) -> tuple[int, int]:
        """What they are sorted by. Requirements have no order: of equal urgency, what was asked first comes first."""
        return self[:2]

    def is_before(self, other: ClassKey) -> bool:
        """Returns whether these tasks go first. Of equally deep ones of two users shares decide that, and not a
        priority."""
        if self.negative_depth != other.negative_depth or self.user == other.user:
            return self.urgency < other.urgency
        return False


def class_key(header: TaskHeader, user: str) -> ClassKey:
    requirement = header.capabilities
    if header.code_tag:
        requirement = requirement + _asked(CODE + header.code_tag)
    if header.code_set:
        requirement = requirement + _asked(CODE_SETS)
    return ClassKey(-header.depth, -header.priority, requirement, user)
