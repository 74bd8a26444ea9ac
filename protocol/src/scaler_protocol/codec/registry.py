"""Every message of protocol version 1: its union member, its plan, its count of payload frames."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scaler_protocol.codec import access as accesses
from scaler_protocol.codec import schema
from scaler_protocol.codec.framing import WORD_BYTES
from scaler_protocol.codec.plans import RecordPlan, member_name, plan_of
from scaler_protocol.codec.templates import Templates
from scaler_protocol.messages import Message, TaskError

_SPARE_WORDS = 64
"""Room for the structs around the columns."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member of the envelope's union."""

    record: type
    name: str
    handle: accesses.Handle
    plan: RecordPlan[Any] | None
    """None for a member of type Void: the record has no fields."""
    payload_frames: int


class Registry:
    """What the codec knows of the schema, resolved once."""

    def __init__(self, access: accesses.Access | None = None) -> None:
        files = schema.load()
        self.envelope = files["envelope"].Envelope
        self.task_error = files["tasks"].TaskError
        self.access = access or accesses.choose(self.envelope.new_message())
        fields = self.envelope.schema
        self.seq, self.ack, self.payload_frames, self.message = (
            self.access.handle(fields, name) for name in ("seq", "ack", "payloadFrames", "message")
        )
        union = fields.fields["message"].schema
        members = [self._member(record, union) for record in typing.get_args(Message)]
        self.by_record = {member.record: member for member in members}
        self.by_name = {member.name: member for member in members}
        assert set(self.by_name) == set(union.fieldnames), "the messages and the envelope's union differ"
        self.task_error_plan: RecordPlan[TaskError] = RecordPlan(TaskError, self.task_error.schema, self.access)
        self.templates = Templates(self.build, self._maker_of)

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

    def _member(self, record: type, union: Any) -> MemberPlan:
        name = member_name(record)
        field = union.fields[name]
        is_void = str(field.proto.slot.type.which()) == "void"
        plan: RecordPlan[Any] | None = None if is_void else plan_of(record, field.schema, self.access)
        payload_frames = 1 if plan and plan.payload_index is not None else 0
        return MemberPlan(record, name, self.access.handle(union, name), plan, payload_frames)


@lru_cache(maxsize=1)
def registry() -> Registry:
    return Registry()
