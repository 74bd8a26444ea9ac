"""Every message of protocol version 1: its union member, its plan, its count of payload frames."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from typing import Any

from scaler_protocol.codec import access as accesses
from scaler_protocol.codec import schema
from scaler_protocol.codec.framing import WORD_BYTES
from scaler_protocol.codec.plans import PAYLOAD, RecordPlan, member_name, plan_of
from scaler_protocol.codec.templates import Templates
from scaler_protocol.messages import Message, TaskError
from scaler_protocol.records import complete

_SPARE_WORDS = 64
"""Room for the structs around the columns."""


class MemberPlan:
    """One member of the envelope's union."""

    def __init__(self, record: type, union: Any, access: accesses.Access) -> None:
        self.record = record
        self.name = member_name(record)
        self.handle: accesses.Handle = access.handle(union, self.name)
        self.payload_frames = 1 if any(field.name == PAYLOAD for field in fields(record)) else 0
        self._field = union.fields[self.name]
        self._access = access

    @cached_property
    def plan(self) -> RecordPlan[Any] | None:
        """None for a member of type Void: the record has no fields. Made at first use, because no process has to do
        with half of all messages: all plans take 15 ms."""
        is_void = str(self._field.proto.slot.type.which()) == "void"
        return None if is_void else plan_of(self.record, self._field.schema, self._access)


class Registry:
    """What the codec knows of the schema, resolved once."""

    def __init__(self, access: accesses.Access | None = None) -> None:
        files = schema.load()
        self.envelope = files["envelope"].Envelope
        self.task_error = files["tasks"].TaskError
        self.access = access or accesses.choose(self.envelope.new_message())
        top = self.envelope.schema
        self.seq, self.ack, self.payload_frames, self.message = (
            self.access.handle(top, name) for name in ("seq", "ack", "payloadFrames", "message")
        )
        union = top.fields["message"].schema
        members = [MemberPlan(record, union, self.access) for record in typing.get_args(Message)]
        self.by_record = {member.record: member for member in members}
        self.by_name = {member.name: member for member in members}
        assert set(self.by_name) == set(union.fieldnames), "the messages and the envelope's union differ"
        self.templates = Templates(self.build, self._maker_of)

    @cached_property
    def task_error_plan(self) -> RecordPlan[TaskError]:
        return RecordPlan(TaskError, self.task_error.schema, self.access)

    def prepare(self, *records: type) -> None:
        """Now: what messages with these records need, where it keeps nothing waiting, or is shared by all children."""
        complete(*records)
        for record in records:
            if record in self.by_record:
                self.by_record[record].plan  # noqa: B018 made by being asked for

    def build(self, message: Message, seq: int, ack: int) -> bytes:
        """The envelope of this message."""
        member = self.by_record[type(message)]
        plan, access = member.plan, self.access
        values = plan.values(message) if plan else ()
        # One segment that holds everything: no far pointers, and nothing to join.
        columns = sum([len(value) + WORD_BYTES for value in values if type(value) is bytes])
        builder = self.envelope.new_message(_SPARE_WORDS + columns // WORD_BYTES)
        put = access.setter(builder)
        put(self.seq, seq)
        put(self.ack, ack)
        put(self.payload_frames, member.payload_frames)
        union = access.getter(builder)(self.message)
        if plan is None:
            access.setter(union)(member.handle, None)
        else:
            plan.write_values(access.initializer(union)(member.handle), values)
        encoded: bytes = builder.to_bytes()
        return encoded

    def _maker_of(self, record: type) -> Callable[[Sequence[Any]], Any]:
        plan = self.by_record[record].plan
        assert plan is not None, "only batches have templates"
        return plan.make


@lru_cache(maxsize=1)
def registry() -> Registry:
    return Registry()
