"""Messages as canonical JSON, the form in which people read them and other languages' codecs are judged.

Names are those of the schema. Integers of 64 bits are decimal strings, because JSON readers disagree beyond 2^53. Bytes
are hex. Defaults are written out. Columns are expanded to rows, one for each task, so two messages that mean the same
look the same, whatever columns were left empty (BAT-1). One form for one meaning: that is what canonical says here.
"""

from __future__ import annotations

from typing import Any

from scaler_protocol.canonical_batches import COLUMNS, ROWS
from scaler_protocol.codec import Envelope
from scaler_protocol.codec.plans import PAYLOAD, FieldPlan, RecordPlan
from scaler_protocol.codec.registry import registry
from scaler_protocol.messages import Message, TaskError

Json = dict[str, Any]


def to_canonical(envelope: Envelope) -> Json:
    member = registry().by_record[type(envelope.message)]
    fields = _record_to_json(member.plan, envelope.message) if member.plan else {}
    return {
        "seq": str(envelope.seq),
        "ack": str(envelope.ack),
        "payloadFrames": member.payload_frames,
        "message": {member.name: fields},
    }


def from_canonical(document: Json) -> Envelope:
    """Raises ValueError when this is no canonical message. What is left out has its default."""
    try:
        ((name, fields),) = document["message"].items()
        member = registry().by_name[name]
        message: Message = _record_from_json(member.plan, fields) if member.plan else member.record()
        return Envelope(int(document.get("seq", "0")), int(document.get("ack", "0")), message)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"this is not a canonical message: {error!r}") from error


def task_error_to_canonical(error: TaskError) -> Json:
    return _record_to_json(registry().task_error_plan, error)


def task_error_from_canonical(document: Json) -> TaskError:
    error: TaskError = _record_from_json(registry().task_error_plan, document)
    return error


def _record_to_json(plan: RecordPlan[Any], record: Any) -> Json:
    columns = COLUMNS.get(plan.record, ())
    document = {
        field.schema_name: _value_to_json(field, getattr(record, field.name))
        for field in plan.fields
        if field.name not in columns
    }
    if plan.record in ROWS:
        document |= ROWS[plan.record].expand(record)
    elif plan.payload_index is not None:
        document[PAYLOAD] = bytes(record.payload).hex()
    return document


def _record_from_json(plan: RecordPlan[Any], document: Json) -> Any:
    values: Json = {}
    rest = dict(document)
    if plan.record in ROWS:
        values = ROWS[plan.record].join(rest)
    elif plan.payload_index is not None:
        values[PAYLOAD] = bytes.fromhex(rest.pop(PAYLOAD))
    for field in plan.fields:
        if field.name not in values:
            is_given = field.schema_name in rest
            values[field.name] = _value_from_json(field, rest.pop(field.schema_name)) if is_given else field.default
    if rest:
        raise ValueError(f"{plan.record.__name__} has no {', '.join(sorted(rest))}")
    return plan.record(**values)


def _value_to_json(field: FieldPlan, value: Any) -> Any:
    if field.plan:
        is_list = field.kind == "list of struct"
        return [_record_to_json(field.plan, item) for item in value] if is_list else _record_to_json(field.plan, value)
    if field.kind == "data":
        return value.hex()
    if field.kind == "list of text":
        return list(value)
    return str(value) if field.is_wide else value


def _value_from_json(field: FieldPlan, value: Any) -> Any:
    if field.plan:
        plan, is_list = field.plan, field.kind == "list of struct"
        return tuple(_record_from_json(plan, item) for item in value) if is_list else _record_from_json(plan, value)
    if field.kind == "data":
        return bytes.fromhex(value)
    if field.kind == "list of text":
        return tuple(value)
    return int(value) if field.is_wide else value
