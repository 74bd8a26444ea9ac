"""Between structs of the schema and the records of `messages`.

A plan is made once per record type, from the schema and the record's annotations alone: which field of the struct fills
which field of the record, of what kind it is, and its default. Thus a new field needs a line in the schema, one in
`messages`, and nothing here.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
import typing
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from types import MethodWrapperType
from typing import Any, Generic, TypeVar

from scaler_protocol import codes
from scaler_protocol.codec.access import Access, Builder, Reader
from scaler_protocol.codec.bounds import LIST_ITEMS_MAX, most_items
from scaler_protocol.codec.errors import CodecError
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId, Salt, TaskId
from scaler_protocol.messages import Hello, TaskHeader

PAYLOAD = "payload"
_IDS = (PeerId, TaskId, ObjectId, GraphId, Salt)
_CHECKED_BY_THE_SESSION = (Hello, "peer_id")
"""A Hello with a bad peer id is answered by a Reject, so it has to be readable. (HSK-4)"""
_WIDE_KINDS = frozenset(("uint64", "int64"))
_FLOAT_KINDS = frozenset(("float32", "float64"))

Record = TypeVar("Record")


#: Calls a slot's `__set__` without a step of the interpreter; Python 3.10 has no `operator.call`.
_call: Callable[..., object] = getattr(operator, "call", MethodWrapperType.__call__)


def camel_case(name: str) -> str:
    """`version_min` -> `versionMin`: fields are named alike on both sides."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def member_name(record: type) -> str:
    """The union member that carries records of this type: `CancelReply` -> `cancelReply`."""
    return re.sub("^.", lambda match: match.group().lower(), record.__name__)


@dataclasses.dataclass(frozen=True)
class FieldPlan:
    """One field, described in plain words, for code that walks over records (`canonical.py`, strategies)."""

    name: str
    schema_name: str
    kind: str
    """As in the schema: bool, uint16, …, text, data, struct; or `list of text`, `list of struct`."""
    is_checked_id: bool
    """Sixteen bytes, or, where the record has a default, none. (FRM-8)"""
    is_required_id: bool
    default: Any
    plan: RecordPlan[Any] | None

    @property
    def is_wide(self) -> bool:
        """Of 64 bits: more than the numbers of some JSON readers hold."""
        return self.kind in _WIDE_KINDS


class RecordPlan(Generic[Record]):
    """Reads and writes records of one type."""

    def __init__(self, record: type[Record], schema: Any, access: Access) -> None:
        self.record = record
        self._access = access
        hints = typing.get_type_hints(record)
        names = [field.name for field in dataclasses.fields(record)]  # type: ignore[arg-type]
        self.payload_index = names.index(PAYLOAD) if PAYLOAD in names else None
        self.fields = tuple(self._plan_field(name, hints[name], schema) for name in names if name != PAYLOAD)
        _expect_same_fields(record, {field.schema_name for field in self.fields}, set(schema.fieldnames))
        self._handles = [access.handle(schema, field.schema_name) for field in self.fields]
        self._prepare()

    def _plan_field(self, name: str, hint: Any, schema: Any) -> FieldPlan:
        schema_name = camel_case(name)
        field = schema.fields[schema_name]
        slot = field.proto.slot
        kind = str(slot.type.which())
        plan: RecordPlan[Any] | None = None
        default: Any = ()
        if kind == "list":
            kind = f"list of {slot.type.list.elementType.which()}"
            if kind == "list of struct":
                plan = plan_of(typing.get_args(hint)[0], field.schema.elementType, self._access)
        elif kind == "struct":
            plan = plan_of(hint, field.schema, self._access)
            default = plan.record(*(nested.default for nested in plan.fields))
        else:
            default = getattr(slot.defaultValue, kind)
        is_checked_id = hint in _IDS and (self.record, name) != _CHECKED_BY_THE_SESSION
        is_required_id = is_checked_id and _has_no_default(self.record, name)
        return FieldPlan(name, schema_name, kind, is_checked_id, is_required_id, default, plan)

    def _prepare(self) -> None:
        """The loops below run once per struct on the wire, so they run over as little as possible."""
        numbered = list(enumerate(self.fields))
        self.values = _tuple_getter([field.name for field in self.fields])
        slots = dataclasses.fields(self.record)  # type: ignore[arg-type]
        self._slots = [getattr(self.record, slot.name).__set__ for slot in slots]
        self._plain = [(i, self._handles[i], f.default) for i, f in numbered if f.plan is None and f.default != ()]
        self._texts = [(i, most_items(self.record, f.name)) for i, f in numbered if f.kind == "list of text"]
        self._structs = [(i, f.plan) for i, f in numbered if f.plan and f.kind == "struct"]
        self._lists = [
            (i, f.plan, most_items(self.record, f.name)) for i, f in numbered if f.plan and f.kind == "list of struct"
        ]
        self._ids = [(i, f) for i, f in numbered if f.is_checked_id]
        self._floats = [(i, f) for i, f in numbered if f.kind in _FLOAT_KINDS]

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, reader: Reader, payload: Any = None) -> Record:
        """The record that this struct holds. Raises CodecError, or whatever pycapnp raises over broken pointers."""
        values = self.read_values(reader)
        if self.payload_index is not None:
            values.insert(self.payload_index, payload)
        return self.make(values)

    def make(self, values: Sequence[Any]) -> Record:
        """The record of these values. What its own __init__ does, at two thirds of the cost: one set for each slot."""
        record = object.__new__(self.record)
        deque(map(_call, self._slots, repeat(record), values), 0)
        return record

    def read_values(self, reader: Reader) -> list[Any]:
        get = self._access.getter(reader)
        values = [get(handle) for handle in self._handles]
        for i, most in self._texts:
            values[i] = tuple(_bounded(values[i], most)) if len(values[i]) else ()
        for i, plan in self._structs:
            values[i] = plan.read(values[i])
        for i, plan, most in self._lists:
            values[i] = tuple(map(plan.read, _bounded(values[i], most))) if len(values[i]) else ()
        for i, field in self._ids:
            if len(values[i]) != ID_BYTES and (values[i] or field.is_required_id):
                raise _bad_id(self.record, field, values[i])
        for i, field in self._floats:
            if not 0.0 <= values[i] < math.inf:
                raise _bad_float(self.record, field, values[i])
        return values

    # ------------------------------------------------------------------------------------------------ writing

    def write(self, builder: Builder, record: Record) -> None:
        self.write_values(builder, self.values(record))

    def write_values(self, builder: Builder, values: tuple[Any, ...]) -> None:
        """Fills a fresh struct. Fields that hold the schema's default stay unwritten: that is what they then say."""
        put = self._access.setter(builder)
        for i, handle, default in self._plain:
            value = values[i]
            if value != default:
                try:
                    put(handle, value)
                except UnicodeEncodeError:
                    put(handle, printable(value))
        for i, _ in self._texts:
            if values[i]:
                _fill_texts(self._open(builder, i, len(values[i])), values[i])
        for i, plan in self._structs:
            plan.write(self._open(builder, i), values[i])
        for i, plan, _ in self._lists:
            if values[i]:
                items = self._open(builder, i, len(values[i]))
                for position, item in enumerate(values[i]):
                    plan.write(items[position], item)

    def _open(self, builder: Builder, i: int, *size: int) -> Builder:
        return self._access.initializer(builder)(self._handles[i], *size)


class InternedPlan(RecordPlan[Record]):
    """For small records that come again and again, such as headers of batches: equal ones are one object."""

    KEPT_RECORDS = 256
    KEPT_CHARACTERS = 1024
    """Records with more text are not kept: a hostile peer could fill the memory with them."""

    def _prepare(self) -> None:
        super()._prepare()
        self._kept: dict[tuple[Any, ...], Record] = {}

    def read(self, reader: Reader, payload: Any = None) -> Record:
        values = tuple(self.read_values(reader))
        return self._kept.get(values) or self._make(values)

    def _make(self, values: tuple[Any, ...]) -> Record:
        record = self.record(*values)
        if len(self._kept) >= self.KEPT_RECORDS:
            self._kept.clear()
        if len(str(values)) <= self.KEPT_CHARACTERS:
            self._kept[values] = record
        return record


def plan_of(record: type[Record], schema: Any, access: Access) -> RecordPlan[Record]:
    return (InternedPlan if record is TaskHeader else RecordPlan)(record, schema, access)


def _fill_texts(items: Builder, texts: Sequence[str]) -> None:
    for position, text in enumerate(texts):
        try:
            items[position] = text
        except UnicodeEncodeError:
            items[position] = printable(text)


def printable(text: str) -> str:
    """Names of files, and what programs print, may hold lone surrogates, which UTF-8 has no bytes for."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _tuple_getter(names: list[str]) -> Any:
    """attrgetter, except that it gives a tuple also for one name and for none."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _bounded(items: Any, most: int) -> Any:
    if len(items) > most:
        clause = "FRM-8" if most == LIST_ITEMS_MAX else "LIM-9"
        raise CodecError(codes.BAD_ENVELOPE, f"a list has {len(items)} items, more than {most}", clause)
    return items


def _bad_id(record: type, field: FieldPlan, value: bytes) -> CodecError:
    lengths = f"{ID_BYTES} bytes" if field.is_required_id else f"{ID_BYTES} bytes or empty"
    text = f"{field.schema_name} of {record.__name__} is {len(value)} bytes long; it must be {lengths}"
    return CodecError(codes.BAD_ENVELOPE, text, "FRM-8")


def _bad_float(record: type, field: FieldPlan, value: float) -> CodecError:
    # Seconds and shares only. A NaN among deadlines would put a heap out of order without a word.
    text = f"{field.schema_name} of {record.__name__} is {value}; it must be a finite number that is not negative"
    return CodecError(codes.BAD_ENVELOPE, text, "FRM-8")


def _has_no_default(record: type, name: str) -> bool:
    field = next(field for field in dataclasses.fields(record) if field.name == name)
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _expect_same_fields(record: type, ours: set[str], theirs: set[str]) -> None:
    assert ours == theirs, f"{record.__name__} and its struct differ in {sorted(ours ^ theirs)}"
