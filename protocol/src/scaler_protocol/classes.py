"""Classes that travel by value: reading a class never changes one that lives. (decision 0025)

cloudpickle sends a class of the main program with all its attributes, under a tracker id. A process that reads the
class and has one with this tracker takes its own. But cloudpickle then sets all attributes to what they were when the
class was sent. So reading a result would set back what the program has changed meanwhile, and a call would change the
class that another call uses. Here a class is filled once, when it is made.

* In a program, a result is an instance of the program's own class, whose attributes stay what they are.
* In a processor, all that is read for one call shares its classes: the function, its arguments, and results of nested
  calls. The next call does not see these classes: `end_call` forgets them.

Names that pickles use in this module never go away, because they are in stored bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from cloudpickle import cloudpickle

from scaler_protocol import task_context

#: what the call that runs in this process has read of which it must have one only, by tracker or object id
read: dict[Any, Any] = {}

#: classes that were made and have no attributes yet, by `id`
_unfilled: WeakValueDictionary[int, Any] = WeakValueDictionary()


class Count:
    """The number of classes by value that were read in this process."""

    read = 0


def end_call() -> None:
    """Forgets what was read for one call."""
    for tracker in list(read):
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.pop(tracker, None)
    read.clear()


def reduced_once(kind: Any, reduced: Any) -> Any:
    """Returns how pickle writes this class, from how it would write it if each reader filled it anew."""
    if type(reduced) is not tuple or len(reduced) != 6:
        return reduced  # by its name
    make, arguments, state, _, _, set_state = reduced
    tracker = cloudpickle._get_or_create_tracker_id(kind)
    return class_of, (tracker, make, arguments), (set_state, state), None, None, fill_class


def class_of(tracker: str, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Returns the class that has this tracker here, or makes it without attributes."""
    Count.read += 1
    kind = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    if kind is None:
        kind = tracked(tracker, make(*arguments))
        _unfilled[id(kind)] = kind
    return kind


def tracked(tracker: str, made: Any) -> Any:
    """Returns what has this tracker here, which is `made` if nothing had it."""
    found = cloudpickle._lookup_class_or_track(tracker, made)
    if found is made and task_context.current() is not None:
        read[tracker] = made
    return found


def fill_class(kind: Any, state: tuple[Callable[[Any, Any], Any], Any]) -> None:
    """Gives a class that was just made its attributes."""
    if _unfilled.get(id(kind)) is kind:
        state[0](kind, state[1])
        _unfilled.pop(id(kind), None)
