"""Functions under decorators, context managers, descriptors, exceptions, and what libraries make of them.

Run as a script; see ways.py.
"""

import contextlib
import dataclasses
import functools
import operator
import typing

from tests.support.defining.ways import failing, run


@dataclasses.dataclass
class Plain:
    n: int


@functools.singledispatch
def kind(x: object) -> str:
    return "other"


@kind.register
def _(x: int) -> str:
    return "int"


@kind.register(list)
def _(x: list[object]) -> str:
    return "list of " + kind(x[0])


@kind.register
def _(x: Plain) -> str:
    return "plain"


class Dispatching:
    @functools.singledispatchmethod
    def told(self, x: object) -> str:
        return "other"

    @told.register
    def _(self, x: int) -> str:
        return "int"

    def plain(self) -> str:
        return "plain"


@contextlib.contextmanager
def noted(text: str) -> typing.Iterator[str]:
    NOTES.append(text)
    yield text


NOTES: list[str] = []


@noted("in")
def in_context(x: int) -> tuple[int, str]:
    return x, NOTES[-1]


class Context(contextlib.ContextDecorator):
    def __enter__(self) -> None:
        self.entered = True

    def __exit__(self, *_: object) -> None:
        self.entered = False


CONTEXT = Context()


@CONTEXT
def in_own_context(x: int) -> int:
    return x


def in_with(x: int) -> str:
    with noted("with") as text, contextlib.suppress(ValueError):
        return f"{x} {text}"
    return ""


@functools.cache
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.lru_cache(maxsize=3)
def remembered(x: int) -> int:
    return x + 1


@functools.total_ordering
class Ordered:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and self.n == other.n

    def __lt__(self, other: "Ordered") -> bool:
        return self.n < other.n

    __hash__ = None


class Methods:
    factor = 3

    def __init__(self, base: int = 1) -> None:
        self.base = base

    def plus(self, x: int) -> int:
        return self.base + x

    @functools.cached_property
    def slow(self) -> int:
        return self.base * 10

    @functools.lru_cache  # noqa: B019
    def cached(self) -> int:
        return self.base * 20

    @staticmethod
    def static(x: int) -> int:
        return x + 1

    @classmethod
    def of_class(cls, x: int) -> int:
        return cls.factor * x

    plus_two = functools.partialmethod(plus, 2)
    get = lambda self, x: self.base * x  # noqa: E731


class Positive:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: object, owner: type) -> object:
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance: object, value: int) -> None:
        if value < 0:
            raise ValueError("negative")
        setattr(instance, self.name, value)


class Described:
    amount = Positive()

    def __init__(self, amount: int) -> None:
        self.amount = amount


def doubled(function: typing.Callable[..., int]) -> typing.Callable[..., int]:
    calls = []

    @functools.wraps(function)
    def wrapper(*args: int) -> int:
        calls.append(args)
        return 2 * function(*args)

    return wrapper


@doubled
def wrapped(x: int) -> int:
    return x


class Decorator:
    def __init__(self, function: typing.Callable[..., int]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.count = function, 0

    def __call__(self, *args: int) -> int:
        self.count += 1
        return self.function(*args)


@Decorator
def counted(x: int) -> int:
    return x


class Missing:
    """A mark of which there is one, as libraries define them."""

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = Missing()


class AppError(Exception):
    def __init__(self, code: int, *, detail: str = "d") -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


ROWS = {
    "singledispatch": (lambda: kind, lambda x: (x(1), x("a"), x([1]), x(Plain(1)), x.dispatch(int)(1))),
    "singledispatchmethod": (Dispatching, lambda x: (x.told(1), x.told("a"), x.plain())),
    "a function under a context manager": (lambda: in_context, lambda x: (x(1), x(2))),
    "a function under a ContextDecorator": (lambda: in_own_context, lambda x: x(1)),
    "contextmanager": (lambda: in_with, lambda x: x(1)),
    "cache": (lambda: fibonacci, lambda x: (x(30), x.cache_parameters())),
    "lru_cache": (lambda: remembered, lambda x: (x(1), x.cache_parameters())),
    "total_ordering": (
        lambda: Ordered(2),
        lambda x: (x >= Ordered(1), x < Ordered(3), x == Ordered(2), Ordered.__hash__),
    ),
    "methods": (lambda: Methods(2), lambda x: (x.plus(1), x.slow, x.static(1), x.of_class(2), x.plus_two(), x.get(4))),
    "a cached method": (lambda: Methods(2), lambda x: x.cached()),
    "a bound method": (lambda: Methods(2).plus, lambda x: x(3)),
    "a partial": (lambda: functools.partial(Methods.plus, Methods(3)), lambda x: x(3)),
    "a descriptor": (lambda: Described(4), lambda x: (x.amount, failing(Described, -1), Described.amount.name)),
    "a decorator": (lambda: wrapped, lambda x: (x(4), x.__name__, x.__wrapped__(4))),
    "a class as a decorator": (lambda: counted, lambda x: (x(4), x.__name__)),
    "an exception": (lambda: AppError(4), lambda x: (x.code, x.detail, x.args)),
    "functions that call each other": (lambda: even, lambda x: (x(10), x(7))),
    "itemgetter": (lambda: operator.itemgetter(0), lambda x: x([4])),
    "a mark of which there is one": (lambda: MISSING, lambda x: x is MISSING),
}

with contextlib.suppress(ImportError):
    import attrs

    @attrs.define
    class Attrs:
        x: int = attrs.field(converter=int, validator=attrs.validators.ge(0))
        y: list[int] = attrs.Factory(list)

    @attrs.frozen(kw_only=True)
    class FrozenAttrs:
        x: int = 1

    ROWS["attrs"] = lambda: Attrs("4"), lambda x: (repr(x), attrs.asdict(x), failing(Attrs, -1), hasattr(x, "__dict__"))
    ROWS["attrs, frozen"] = FrozenAttrs, lambda x: (repr(x), hash(x) == hash(FrozenAttrs()))
with contextlib.suppress(ImportError):
    import pydantic

    class Model(pydantic.BaseModel):
        x: int
        y: list[str] = []

        @pydantic.field_validator("x")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 0:
                raise ValueError("negative")
            return value

    ROWS["pydantic's BaseModel"] = lambda: Model(x="4"), lambda x: (repr(x), x.model_dump(), failing(Model, x=-1)[:10])
with contextlib.suppress(ImportError):
    import toolz

    @toolz.curry
    def curried(x: int, y: int) -> int:
        return x + y

    @toolz.memoize
    def memoized(x: int) -> int:
        return x + 1

    ROWS["toolz.curry"] = lambda: curried, lambda x: (x(1)(2), x(1, 2))
    ROWS["toolz.memoize"] = lambda: memoized, lambda x: x(1)
    ROWS["toolz.compose"] = lambda: toolz.compose(memoized, wrapped), lambda x: x(1)
with contextlib.suppress(ImportError):
    import cachetools

    @cachetools.cached({})
    def in_cache(x: int) -> int:
        return x + 1

    ROWS["cachetools.cached"] = lambda: in_cache, lambda x: x(1)

if __name__ == "__main__":
    run(ROWS)
