"""Classes: dataclasses, slots, hooks, metaclasses, registries, enumerations.

Run as a script; see ways.py.
"""

import abc
import dataclasses
import enum
import typing
import weakref

from tests.support.defining.ways import failing, run

T = typing.TypeVar("T")


@dataclasses.dataclass
class Plain:
    n: int
    names: list[str] = dataclasses.field(default_factory=list)
    kinds: typing.ClassVar[dict[str, int]] = {"a": 1}


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int


@dataclasses.dataclass(slots=True)
class Slotted:
    n: int
    name: str = "x"


@dataclasses.dataclass(slots=True)
class SlottedChild(Slotted):
    more: float = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Full:
    n: int
    name: str = "x"


class Slots:
    __slots__ = ("a", "empty")

    def __init__(self, a: int = 1) -> None:
        self.a = a


class SlotsAndWeak(Slots):
    __slots__ = ("__weakref__",)


class SlotsAndDict(Slots):
    pass


class PrivateSlot:
    __slots__ = "__hidden"

    def __init__(self) -> None:
        self.__hidden = 3

    def get(self) -> int:
        return self.__hidden


class NoSlots(Slots):
    __slots__ = ()


class DescribedSlots:
    __slots__ = {"a": "what it is"}

    def __init__(self) -> None:
        self.a = 1


class SlottedGeneric(typing.Generic[T]):
    __slots__ = ("item",)

    def __init__(self, item: T) -> None:
        self.item = item


class SlottedError(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Plugin:
    found: list[type] = []

    def __init_subclass__(cls, *, key: str, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.key = key
        Plugin.found.append(cls)


class First(Plugin, key="first"):
    version = 1


class Second(First, key="second"):
    version = 1  # equal to its parent's, and its own all the same


class Registered:
    found: dict[str, type] = {}

    def __init_subclass__(cls) -> None:
        Registered.found[cls.__name__] = cls


class Third(Registered):
    pass


class Counting(type):
    made: list[str] = []

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], *, key: int) -> "Counting":
        Counting.made.append(name)
        return super().__new__(cls, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], *, key: int) -> None:
        super().__init__(name, bases, namespace)
        cls.key = key

    def __call__(cls, *args: object) -> object:
        made = super().__call__(*args)
        made.by = cls.key
        return made

    def __getitem__(cls, index: int) -> int:
        return cls.key + index


class Counted(metaclass=Counting, key=7):
    class Inner:
        value = 3


class Singleton(type):
    _instances: dict[type, object] = {}

    def __call__(cls, *args: object) -> object:
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class One(metaclass=Singleton):
    pass


class Fixed(type):
    def __setattr__(cls, name: str, value: object) -> None:
        raise AttributeError("cannot be changed")


class Constants(metaclass=Fixed):
    ONE = 1


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> int: ...

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    def double(self) -> int:
        return 2 * self.area()


class Square(Shape):
    name = "square"

    def area(self) -> int:
        return 9


class Virtual:
    pass


Shape.register(Virtual)


class Live:
    all: weakref.WeakSet["Live"] = weakref.WeakSet()
    by_name: weakref.WeakValueDictionary[str, "Live"] = weakref.WeakValueDictionary()
    notes: weakref.WeakKeyDictionary["Live", str] = weakref.WeakKeyDictionary()

    def __init__(self, name: str) -> None:
        self.name, self.parent = name, None
        Live.all.add(self)
        Live.by_name[name] = self
        Live.notes[self] = name


class Node:
    def __init__(self) -> None:
        self.children = [Leaf(self)]


class Leaf:
    def __init__(self, node: Node) -> None:
        self.node = weakref.ref(node)


LIVE = Live("kept")


class Color(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = enum.auto()

    @property
    def low(self) -> str:
        return self.name.lower()


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

    @classmethod
    def _missing_(cls, value: object) -> "Level":
        return cls.HIGH


class Planet(enum.Enum):
    EARTH = (5, 6)
    MARS = (1, 3)

    def __init__(self, mass: int, radius: int) -> None:
        self.mass, self.radius = mass, radius

    def gravity(self) -> int:
        return self.mass * self.radius


class Labelled(str, enum.Enum):
    A = "a", "first"

    def __new__(cls, value: str, label: str) -> "Labelled":
        made = str.__new__(cls, value)
        made._value_ = value
        made.label = label
        return made


ROWS = {
    "dataclass": (lambda: Plain(1, ["a"]), lambda x: (repr(x), x == Plain(1, ["a"]), x.kinds, dataclasses.asdict(x))),
    "frozen dataclass": (lambda: Frozen(1), lambda x: (repr(x), hash(x), Frozen(0) < x, failing(setattr, x, "n", 2))),
    "slotted dataclass": (lambda: Slotted(1), lambda x: (repr(x), hasattr(x, "__dict__"), failing(setattr, x, "m", 1))),
    "child of a slotted dataclass": (lambda: SlottedChild(1), lambda x: (repr(x), hasattr(x, "__dict__"))),
    "every option": (
        lambda: Full(n=1),
        lambda x: (repr(x), x < Full(n=2), hash(x) == hash(Full(n=1)), hasattr(x, "__dict__")),
    ),
    "slots": (Slots, lambda x: (x.a, failing(getattr, x, "empty"), hasattr(x, "__dict__"), Slots.__slots__)),
    "slots and weak references": (SlotsAndWeak, lambda x: (x.a, weakref.ref(x)() is x, hasattr(x, "__dict__"))),
    "slots and a dict": (SlotsAndDict, lambda x: (x.a, vars(x))),
    "a private slot": (PrivateSlot, lambda x: (x.get(), hasattr(x, "__dict__"), PrivateSlot.__slots__)),
    "empty slots": (NoSlots, lambda x: (x.a, hasattr(x, "__dict__"), NoSlots.__slots__)),
    "slots with texts": (DescribedSlots, lambda x: (x.a, type(x).__slots__, hasattr(x, "__dict__"))),
    "a generic class with slots": (lambda: SlottedGeneric[int](4), lambda x: (x.item, str(SlottedGeneric[int]))),
    "an exception with slots": (lambda: SlottedError(4), lambda x: (x.code, x.args)),
    "__init_subclass__ with keywords": (First, lambda x: (x.key, x.version, [one.__name__ for one in Plugin.found])),
    "an attribute that equals its parent's": (
        Second,
        lambda x: (x.key, "version" in vars(type(x)), [one.key for one in Plugin.found]),
    ),
    "a registry of subclasses": (Third, lambda x: (list(Registered.found), Registered.found["Third"] is type(x))),
    "a metaclass with keywords": (
        Counted,
        lambda x: (x.by, Counted[1], Counting.made, Counted.Inner.value, type(x).key),
    ),
    "a singleton": (One, lambda x: (type(x).__name__, One() is One())),
    "a metaclass that refuses changes": (Constants, lambda x: (x.ONE, failing(setattr, Constants, "ONE", 2))),
    "an abstract class": (
        Square,
        lambda x: (x.double, isinstance(x, Shape), failing(Shape), isinstance(Virtual(), Shape)),
    ),
    "weak registries": (
        lambda: [LIVE],
        lambda x: (x[0].name, LIVE in Live.all, Live.by_name["kept"] is LIVE, Live.notes[LIVE]),
    ),
    "a weak reference upwards": (Node, lambda x: x.children[0].node() is x),
    "enum": (
        lambda: Color.RED,
        lambda x: (x is Color.RED, x.low, Color.CRIMSON is x, list(Color.__members__), Color(2)),
    ),
    "enum itself": (lambda: Color, lambda x: (x is Color, list(x), x["BLUE"].value)),
    "Flag": (
        lambda: Access.BOTH,
        lambda x: (x is Access.BOTH, Access.READ in x, x & Access.WRITE, repr(Access.READ | Access.WRITE)),
    ),
    "IntEnum": (lambda: Level.LOW, lambda x: (x is Level.LOW, x + 1, Level(9) is Level.HIGH)),
    "enum with attributes": (lambda: Planet.MARS, lambda x: (x is Planet.MARS, x.gravity(), x.value)),
    "enum with __new__": (lambda: Labelled.A, lambda x: (x is Labelled.A, x.label, x.value, Labelled("a") is x)),
}

if __name__ == "__main__":
    run(ROWS)
