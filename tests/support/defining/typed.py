"""Definitions that `typing` makes, and those that newer versions of Python write with words of their own.

Run as a script; see ways.py.
"""

import collections
import dataclasses
import enum
import functools
import sys
import typing
import weakref

from tests.support.defining.ways import failing, run

T = typing.TypeVar("T")
P = typing.ParamSpec("P")

UserId = typing.NewType("UserId", int)
AdminId = typing.NewType("AdminId", UserId)
Ids = list[UserId]


class Row(typing.TypedDict, total=False):
    id: typing.Required[int] if hasattr(typing, "Required") else int  # type: ignore[valid-type]
    name: str


class Point(typing.NamedTuple):
    x: int
    y: int = 2

    def sum(self) -> int:
        return self.x + self.y


Pair = collections.namedtuple("Pair", "left right")
Other = collections.namedtuple("OtherName", "a")  # a name that is not its variable's


@typing.runtime_checkable
class Quacks(typing.Protocol):
    loud: int

    def quack(self) -> str: ...


class Duck:
    loud = 1

    def quack(self) -> str:
        return "quack"


class Stack(typing.Generic[T]):
    def __init__(self, *items: T) -> None:
        self.items = items


class IntStack(Stack[int]):
    pass


def passing(function: typing.Callable[P, T]) -> typing.Callable[P, T]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return wrapper


@passing
def admin(x: int) -> AdminId:
    return AdminId(UserId(x))


def hints(x: Row | None = None, *, ids: Ids = ()) -> dict[str, UserId]:  # type: ignore[assignment]
    return {"a": UserId(3)}


ROWS = {
    "NewType": (lambda: (UserId(3), UserId), lambda x: (x[0], x[1].__supertype__, repr(x[1]), x[1] is UserId)),
    "NewType of a NewType": (lambda: AdminId, lambda x: (x(4), x.__supertype__ is UserId, x.__supertype__(5))),
    "an alias": (lambda: Ids, lambda x: (typing.get_args(x)[0] is UserId, repr(x))),
    "ParamSpec": (lambda: P, lambda x: (repr(x), x is P)),
    "a decorator with ParamSpec": (lambda: admin, lambda x: (x(4), str(sorted(x.__annotations__)))),
    "annotations": (lambda: hints, lambda x: (x(), sorted(x.__annotations__))),
    "TypedDict": (lambda: Row(id=1), lambda x: (x, Row.__total__, sorted(Row.__annotations__), Row(id=3))),
    "NamedTuple": (lambda: Point(1), lambda x: (repr(x), x.sum(), x._replace(x=5), type(x) is Point)),
    "namedtuple": (lambda: Pair(1, 2), lambda x: (repr(x), x.left, type(x) is Pair)),
    "namedtuple of another name": (lambda: Other(1), lambda x: (repr(x), x.a, type(x) is Other)),
    "Protocol": (Duck, lambda x: (x.quack(), isinstance(x, Quacks), isinstance(3, Quacks))),
    "Generic": (lambda: Stack[int](1, 2), lambda x: (x.items, str(x.__orig_class__), str(Stack.__parameters__))),
    "child of a Generic": (
        lambda: IntStack(1),
        lambda x: (x.items, str(IntStack.__orig_bases__), IntStack.__mro__[1] is Stack),
    ),
}

if sys.version_info >= (3, 11):
    exec(
        """
@dataclasses.dataclass(slots=True, weakref_slot=True)
class WithWeak:
    n: int

Ts = typing.TypeVarTuple("Ts")

class Strict(enum.StrEnum):
    A = enum.auto()

ROWS["a slotted dataclass with weak references"] = (
    lambda: WithWeak(1), lambda x: (repr(x), weakref.ref(x)() is x, hasattr(x, "__dict__")))
ROWS["TypeVarTuple"] = (lambda: Ts, lambda x: (repr(x), x is Ts))
ROWS["StrEnum"] = (lambda: Strict.A, lambda x: (x is Strict.A, x + "b"))
"""
    )
if sys.version_info >= (3, 12):
    exec(
        """
type Numbers = list[int]
type Tree = int | list[Tree]
type Both[A] = tuple[A, A]

class Box[A]:
    def __init__(self, item: A) -> None:
        self.item = item

    def get[B](self, default: B) -> A | B:
        return self.item or default

class IntBox(Box[int]):
    pass

@dataclasses.dataclass(slots=True)
class SlottedBox[A]:
    item: A

def first[A](items: list[A], default: Numbers = ()) -> A:
    return items[0]

ROWS["type X ="] = (lambda: Numbers, lambda x: (repr(x), x.__value__))
ROWS["type X = ... X ..."] = (lambda: Tree, lambda x: (str(x.__value__), x.__value__.__args__[1].__args__[0] is x))
ROWS["type X[T] ="] = (lambda: Both, lambda x: (str(x[int]), x.__type_params__[0] is x.__value__.__args__[0]))
ROWS["class X[T]"] = (lambda: Box[int](0), lambda x: (x.get(3), str(Box.__type_params__), str(Box[int])))
ROWS["child of class X[T]"] = (lambda: IntBox(4), lambda x: (x.get(3), str(IntBox.__orig_bases__)))
ROWS["slotted dataclass X[T]"] = (lambda: SlottedBox(4), lambda x: (repr(x), hasattr(x, "__dict__")))
ROWS["def f[T]"] = (lambda: first, lambda x: (x([4]), str(x.__type_params__), str(x.__annotations__["default"])))
"""
    )

if __name__ == "__main__":
    run(ROWS)
