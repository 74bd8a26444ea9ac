"""Batches of one task, written and read by patching and comparing bytes instead of walking through pycapnp.

A call that a program waits for travels as a batch of one, through four encodings and four decodings, in processes that
have just been woken and find none of pycapnp's code in the caches: there a walk costs 50 to 110 µs, four times what it
costs in a loop. But such messages are alike: two calls of one program differ in their ids, their numbers in the session
and the sizes of their values, which lie at the same places. (decision 0007)

A template is one such message with those bytes blanked out. Where they lie is not known here but found: the ordinary
encoder writes the message once for each field that may vary, with that field changed, and the bytes that differ are the
field. So the schema stays the only description of the layout. An envelope that equals a template everywhere else has
the pointers and the fixed fields of a message that has passed every check; any other, whatever is the matter with it,
takes the ordinary way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from operator import attrgetter, itemgetter
from typing import Any

from scaler_protocol.codec.plans import PAYLOAD
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import Buffer, Dispatch, Results, Submit

Build = Callable[[Any, int, int], bytes]
"""The ordinary encoder: the envelope of this message, with these numbers."""
MakerOf = Callable[[type], Callable[[Sequence[Any]], Any]]
"""For a type of record, what makes one from the values of its fields, in order."""

_TASK_COLUMNS = ("functions", "ids", "part_sizes", "dependencies", "input_ids", "input_sizes", "awaited", "keys")
_COLUMNS: dict[type, tuple[str, ...]] = {
    Submit: _TASK_COLUMNS, Dispatch: _TASK_COLUMNS, Results: ("ids", "sizes", "profiles")
}  # fmt: skip
"""Of which the bytes, but not the lengths, may differ between messages of one template."""
_NUMBERS: dict[type, tuple[str, ...]] = {Submit: (), Dispatch: (), Results: ("credit",)}
"""Of 32 bits, and not the same each time either."""
_SIZES: dict[type, str] = {Submit: "part_sizes", Dispatch: "part_sizes", Results: "sizes"}

_ALWAYS_RIGHT = frozenset(("header", "functions", "ids", "payload", "part_sizes", "sizes", "profiles", "credit"))
"""In a batch of one in which every other field has its default, all that can be wrong is the size of the payload."""

TEMPLATES = 256
TEMPLATE_BYTES = 1024
SAME_LENGTH = 16
"""So many templates at most are compared with one message."""
MISSES = 8
"""Making a template costs as much as some ten ordinary messages. So only every eighth message that has none gets one:
a peer that sends something new each time makes the work dearer by a bounded part."""

_SEQ_MAX = (1 << 64) - 1
_FIRST_FIELD = 4
"""Among the pieces of an envelope: after the bytes before seq, seq, ack, and the bytes after it."""


class Template:
    """One shape of message: its envelope cut where it changes from fixed bytes to varying ones and back."""

    def __init__(self, message: Any, build: Build, maker_of: MakerOf) -> None:
        kind = type(message)
        slots = [field.name for field in fields(message)]
        zeros: dict[str, Any] = {name: bytes(len(getattr(message, name))) for name in _COLUMNS[kind]}
        ones: dict[str, Any] = {name: b"\xff" * len(column) for name, column in zeros.items() if column}
        ones.update(dict.fromkeys(_NUMBERS[kind], (1 << 32) - 1))
        blank = replace(message, **zeros, **dict.fromkeys(_NUMBERS[kind], 0), **{PAYLOAD: b""})
        image = build(blank, 0, 0)
        spans = {name: _difference(image, build(replace(blank, **{name: ones[name]}), 0, 0)) for name in ones}
        names = sorted(ones, key=spans.__getitem__)
        begin, end = _difference(image, build(blank, _SEQ_MAX, _SEQ_MAX))
        #: fixed bytes, seq, ack; then by turns fixed bytes and a field, and fixed bytes at the end
        self._pieces: list[Any] = [image[:begin], 0, 0]
        pattern = f"<{begin}s2Q"
        fixed_pattern, varying_pattern = f"<{begin}s16x", f"<{begin}x2Q"
        for name in names:
            begin, behind = spans[name]
            self._pieces += image[end:begin], None
            field = "I" if name in _NUMBERS[kind] else f"{behind - begin}s"
            pattern += f"{begin - end}s{field}"
            fixed_pattern += f"{begin - end}s{behind - begin}x"
            varying_pattern += f"{begin - end}x{field}"
            end = behind
        rest = len(image) - end
        self._pieces.append(image[end:])
        self._struct = struct.Struct(f"{pattern}{rest}s")
        assert self._struct.size == len(image), "every byte belongs to one piece"
        self._fixed_of = struct.Struct(f"{fixed_pattern}{rest}s").unpack
        self._varying_of = struct.Struct(f"{varying_pattern}{rest}x").unpack
        self._fixed = self._fixed_of(image)
        self._fields_of = attrgetter(*names)
        self._make = maker_of(kind)
        # What `read` has in hand, in the order of the record's fields: seq, ack, the fields; the payload; the rest.
        others = [slot for slot in slots if slot not in names and slot != PAYLOAD]
        at_hand = [*names, PAYLOAD, *others]
        self._constants = [getattr(blank, slot) for slot in others]
        self._in_order = itemgetter(*[2 + at_hand.index(slot) for slot in slots])
        self._size_at = 2 + names.index(_SIZES[kind])
        self.is_plain = all(
            field.name in _ALWAYS_RIGHT or getattr(blank, field.name) == field.default for field in fields(message)
        )

    @property
    def size(self) -> int:
        return self._struct.size

    def write(self, message: Any, seq: int, ack: int) -> bytes:
        pieces = self._pieces.copy()
        pieces[1] = seq
        pieces[2] = ack
        pieces[_FIRST_FIELD::2] = self._fields_of(message)
        return self._struct.pack(*pieces)

    def read(self, envelope: bytes, payload: Buffer) -> tuple[int, int, Any, bool] | None:
        """Seq, ack, message, and whether its columns are checked already; None when this is of another shape, or when
        something is the matter with it. The envelope is as long as this one's."""
        if self._fixed_of(envelope) != self._fixed:
            return None
        varying = self._varying_of(envelope)
        if self.is_plain and int.from_bytes(varying[self._size_at], "little") != len(payload):
            return None
        message = self._make(self._in_order((*varying, payload, *self._constants)))
        return varying[0], varying[1], message, self.is_plain


class Templates:
    """Those that a process has come to know, apart for writing and reading: only what passed every check is believed
    when it is read."""

    def __init__(self, build: Build, maker_of: MakerOf) -> None:
        self._build = build
        self._maker_of = maker_of
        self._written: dict[tuple[Any, ...], Template] = {}
        self._read: dict[int, list[Template]] = {}  #: by length of the envelope
        self.read_count = 0
        self._written_misses = self._read_misses = 0

    @property
    def written_count(self) -> int:
        return len(self._written)

    def write(self, message: Any, seq: int, ack: int) -> bytes | None:
        """The envelope of this message, or None: use the ordinary encoder."""
        key_of = _KEYS.get(type(message))
        if key_of is None or len(message.ids) != ID_BYTES:
            return None
        key = key_of(message)
        template = self._written.get(key)
        if template is None:
            self._written_misses += 1
            if self._written_misses % MISSES != 1 or not _has_sizes(message) or _is_long(message):
                return None
            template = Template(message, self._build, self._maker_of)
            if len(self._written) >= TEMPLATES:
                self._written.clear()
            self._written[key] = template
        try:
            return template.write(message, seq, ack)
        except struct.error:
            return None  # a number that does not fit: the ordinary encoder has words for it

    def read(self, envelope: bytes, payload: Buffer) -> tuple[int, int, Any, bool] | None:
        """As `Template.read`; None: use the ordinary decoder."""
        known = self._read.get(len(envelope))
        if known is None:
            return None
        for position, template in enumerate(known):
            found = template.read(envelope, payload)
            if found is not None:
                if position:
                    # Tried first the next time: what was said once is mostly said again.
                    known[0], known[position] = template, known[0]
                return found
        return None

    def learn(self, envelope: bytes, message: Any) -> None:
        """This was read in the ordinary way and is right: know the next one of its shape."""
        if type(message) not in _KEYS or len(message.ids) != ID_BYTES or len(envelope) > TEMPLATE_BYTES:
            return
        self._read_misses += 1
        if self._read_misses % MISSES != 1 or not _has_sizes(message):
            return
        if self.read_count >= TEMPLATES:
            self._read.clear()
            self.read_count = 0
        template = Template(message, self._build, self._maker_of)
        # Another encoder may lay it out in another way.
        if template.size == len(envelope) and template.read(envelope, message.payload) is not None:
            known = self._read.setdefault(len(envelope), [])
            known.insert(0, template)
            if len(known) > SAME_LENGTH:
                known.pop()
            else:
                self.read_count += 1


def _has_sizes(message: Any) -> bool:
    """A call without arguments, by a serializer of the program's own, has no parts: we do not know this shape."""
    return bool(getattr(message, _SIZES[type(message)]))


def _is_long(message: Any) -> bool:
    """A task with thousands of inputs, say: making a template takes milliseconds, and the next one is unlike it."""
    return sum(len(getattr(message, name)) for name in _COLUMNS[type(message)]) > TEMPLATE_BYTES


def _difference(image: bytes, changed: bytes) -> tuple[int, int]:
    """Where two messages of one shape differ: from the first such byte to behind the last."""
    differs = [one != other for one, other in zip(image, changed, strict=True)]
    return differs.index(True), len(differs) - differs[::-1].index(True)


def _task_key(batch: Submit | Dispatch) -> tuple[Any, ...]:
    # The identity of the header: programs use one header again and again, and a template keeps its own alive.
    return id(batch.header), *_task_fixed(batch), *map(len, _task_columns(batch)), type(batch)


def _results_key(results: Results) -> tuple[Any, ...]:
    return results.attempts, results.statuses, results.kinds, len(results.sizes), len(results.profiles)


_task_columns = attrgetter(*_TASK_COLUMNS)
_task_fixed = attrgetter(
    "function_indexes", "part_counts", "part_kinds", "dependency_counts", "task_flags", "attempts", "is_graph_sealed",
    "input_kinds", "awaited_counts", "key_sizes",
)  # fmt: skip
_KEYS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Submit: _task_key, Dispatch: _task_key, Results: _results_key
}  # fmt: skip
"""What is the same in all messages of one template, for those that have templates at all."""
