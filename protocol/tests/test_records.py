"""Records are dataclasses in everything but when they are made."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys

import pytest

from scaler_protocol.records import complete, dataclass


@dataclass(frozen=True, slots=True)
class Base:
    name: str
    amounts: list[int] = dataclasses.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point(Base):
    """Of two."""

    x: int = 0


@dataclass(frozen=True, slots=True)
class Other(Base):
    x: int = 0


def test_it_is_what_a_dataclass_is() -> None:
    one, same = Point("a", x=1), Point("a", [], 1)
    assert (one.name, one.amounts, one.x) == ("a", [], 1)
    assert one == same and one != Point("a") and one != Other("a", x=1)
    assert repr(one) == "Point(name='a', amounts=[], x=1)"
    assert dataclasses.replace(one, x=2) == Point("a", x=2)
    assert dataclasses.asdict(one) == {"name": "a", "amounts": [], "x": 1}
    assert one.amounts is not same.amounts
    assert Point.__doc__ == "Of two." and Other.__doc__ == "Other"
    match one:
        case Point(name, _, x):
            assert (name, x) == ("a", 1)


@pytest.mark.parametrize("first", ("__init__", "__repr__", "__eq__", "__hash__"))
def test_whichever_method_comes_first(first: str) -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int = 5

    bare = object.__new__(Fresh)
    object.__setattr__(bare, "x", 6)
    if first == "__eq__":
        assert bare == bare and bare != 6
    elif first == "__hash__":
        assert hash(bare) == hash((6,))
    elif first == "__repr__":
        assert repr(bare).endswith("Fresh(x=6)")
    assert Fresh() == Fresh(5) and hash(Fresh()) == hash((5,)) and repr(Fresh()).endswith("Fresh(x=5)")


def test_it_can_be_made_before_it_is_used() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int = 5

    late = Fresh.__init__
    complete(Fresh)
    assert Fresh.__init__ is not late and Fresh() == Fresh(5)


def test_it_is_frozen_and_has_no_more_than_its_fields() -> None:
    one = Point("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x' of a Point"):
        one.x = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x' of a Point"):
        del one.x
    assert not hasattr(one, "__dict__")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Point()  # type: ignore[call-arg]


def test_it_is_copied_and_pickled() -> None:
    one = Point("a", [1, 2], 3)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == copy.copy(one) == one


def test_one_that_is_not_frozen_can_be_changed_and_has_no_hash() -> None:
    @dataclass(slots=True)
    class Loose:
        x: int = 0

    one = Loose()
    one.x = 1
    assert one == Loose(1) and repr(one).endswith("Loose(x=1)")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert copy.copy(one) == one


def test_fields_that_are_not_arguments() -> None:
    @dataclass(slots=True)
    class Made:
        x: int
        doubled: int = dataclasses.field(init=False)
        seen: list[int] = dataclasses.field(init=False, default_factory=list)
        kind: str = dataclasses.field(init=False, default="made", repr=False)

        def __post_init__(self) -> None:
            self.doubled = 2 * self.x

    one = Made(3)
    assert (one.x, one.doubled, one.seen, one.kind) == (3, 6, [], "made")
    assert repr(one).endswith("Made(x=3, doubled=6, seen=[])")
    with pytest.raises(TypeError):
        Made(3, 6)  # type: ignore[call-arg]


def test_one_that_is_equal_to_itself_alone() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Alone:
        x: int = 0

    one = Alone()
    assert one == one and one != Alone() and len({one, Alone()}) == 2


def test_none_has_a_field_that_is_not_compared() -> None:
    """That would be a field of `dataclasses` which nothing here honours."""

    @dataclass(slots=True)
    class Wrong:
        x: int = dataclasses.field(default=0, compare=False)

    with pytest.raises(AssertionError, match="no such fields"):
        Wrong()


def test_one_that_holds_itself_can_be_shown() -> None:
    one = Base("a")
    one.amounts.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Base(name='a', amounts=[...])"


def test_no_code_is_compiled_before_it_is_needed() -> None:
    """Six methods of each of three hundred classes had been a third of what a cluster took to start."""
    compiled: list[object] = []

    def note(event: str, given: tuple[object, ...]) -> None:
        # From Python 3.14 on `dataclasses` itself compiles one line for a class without methods to make.
        if event == "compile" and is_counted and given[0] != b"def __create_fn__():\n\n return ()":
            compiled.append(given)

    sys.addaudithook(note)
    is_counted = True

    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int
        y: str = ""

    assert not compiled
    one = Fresh(1)
    assert len(compiled) == 1 and repr(one) and hash(one) and len(compiled) == 1
    assert one == Fresh(1) and len(compiled) == 2
    is_counted = False
