"""What a program may ask for besides the call itself. Judged here, in the caller's line.

Theory of the types. A function's own signature checks the call (`ParamSpec`). Where a future or a reference stands for
an argument, the next overloads take it apart: up to four positions each take the value, or what will bring it. What is
by keyword is then not checked, because the type system has no words for it; the call is, when it is submitted.

A map over one or two iterables tells a generic function or a lambda the type of its items. No type of items is refused,
because the last overload takes any: the call is checked when it is submitted.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from scaler_protocol.ids import LAST_ATTEMPT
from scaler_protocol.messages import Capability

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias, TypedDict, TypeVar

    from scaler.client.object_reference import ObjectReference

    A = TypeVar("A")
    T_co = TypeVar("T_co", covariant=True)

    class Pending(Protocol[T_co]):
        """What a future is to the type of a call: its value comes later."""

        def result(self, timeout: float | None = None) -> T_co: ...

        def cancelled(self) -> bool: ...

    Argument: TypeAlias = A | Pending[A] | ObjectReference[A]

    class GetOptions(TypedDict, total=False):
        capabilities: dict[str, int] | None
        priority: int
        retries: int
        timeout: float | None
        reserialize: bool
        lost_processors_limit: int | None

    class MapOptions(GetOptions, total=False):
        chunksize: int
        progress: bool | str
        buffersize: int | None

    class StarmapOptions(GetOptions, total=False):
        progress: bool | str

    class ImapOptions(GetOptions, total=False):
        ordered: bool
        window: int | None


class CallOptions(NamedTuple):
    """A tuple, because it is hashed for each call."""

    capabilities: tuple[Capability, ...] = ()
    priority: int = 0
    retries: int = 0
    timeout_seconds: float = 0.0
    lost_processors_limit: int = 0  #: zero: what the scheduler's operator chose


NO_OPTIONS = CallOptions()

CAPABILITY_BYTES = 24
MOST_CAPABILITY_BYTES = 16 * 1024
"""A quarter of the smallest envelope: capabilities travel with every batch."""


def options_of(
    capabilities: Mapping[str, int] | Iterable[str] | None,
    priority: int,
    retries: int,
    timeout_seconds: float | None,
    lost_processors_limit: int | None = None,
) -> CallOptions:
    """TypeError and ValueError for what cannot be asked."""
    retries = whole("retries", retries, bits=16)
    timeout_seconds = 0.0 if timeout_seconds is None else seconds_of("timeout", timeout_seconds)
    if retries < 0:
        raise ValueError(f"retries must not be negative, got {retries}")
    if retries >= LAST_ATTEMPT:
        raise ValueError(f"retries must be below {LAST_ATTEMPT:,}, the number of the last attempt, got {retries}")
    if not 0 <= timeout_seconds < math.inf:
        raise ValueError(
            f"timeout must not be negative or infinite, got {timeout_seconds:g}; None is without a timeout"
        )
    priority = whole("priority", priority, bits=31)
    limit = 0 if lost_processors_limit is None else _processors_of(lost_processors_limit)
    return CallOptions(capabilities_of(capabilities), priority, retries, timeout_seconds, limit)


def _processors_of(limit: int) -> int:
    limit = whole("lost_processors_limit", limit, bits=16)
    if limit < 1:
        raise ValueError(f"lost_processors_limit must be 1 or more, got {limit}: the first attempt counts as well")
    return limit


def seconds_of(what: str, seconds: object) -> float:
    if not isinstance(seconds, numbers.Real):
        raise TypeError(f"{what} must be a number of seconds, got {seconds!r}")
    if math.isnan(seconds):
        raise ValueError(f"{what} must be a number of seconds, got {seconds!r}")
    return float(seconds)


def end_of(timeout: float | None) -> float | None:
    """When a wait is over that begins now; None: never."""
    seconds = math.inf if timeout is None else seconds_of("timeout", timeout)
    return None if seconds == math.inf else time.monotonic() + seconds


def capabilities_of(wanted: Mapping[str, int] | Iterable[str] | None) -> tuple[Capability, ...]:
    """As programs write them, in one order: equal demands make equal headers."""
    if not wanted:
        return ()
    if isinstance(wanted, str):
        raise TypeError(f'capabilities are a dict such as {{"{wanted}": -1}}, or names in a list')
    amounts = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted, -1)
    size = 0
    for name in amounts:
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a capability must be a text, got {name!r}")
        size += CAPABILITY_BYTES + len(checked_text("the name of a capability", name))
    if size > MOST_CAPABILITY_BYTES:
        raise ValueError(f"a task asks for {len(amounts):,} capabilities, more than a message carries: name fewer")
    return tuple(Capability(name, _amount(name, amount)) for name, amount in sorted(amounts.items()))


def checked_text(what: str, text: str) -> bytes:
    """As it travels. ValueError for half a surrogate pair, such as file names of another encoding may have."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} cannot be encoded: {error}") from None


def _amount(name: str, amount: int) -> int:
    amount = whole(f"the amount of capability {name!r}", amount, bits=63)
    if amount < -1:
        raise ValueError(f"the amount of capability {name!r} must be -1, for none in particular, or more: got {amount}")
    return amount


def whole(what: str, number: int, bits: int) -> int:
    try:
        is_whole = int(number) == number
    except (TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise TypeError(f"{what} must be a whole number, got {number!r}")
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(f"{what} must be below {1 << bits:,}, got {number:,}")
    return int(number)
