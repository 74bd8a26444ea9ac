"""A handle on an object that was sent to the cluster once and is used by many tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.ids import ObjectId


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Pass it to `submit` in place of the object, by position or keyword; inside a container it stays a reference."""

    name: bytes = field(compare=False)
    #: bytes of the object when serialized
    size: int = field(compare=False)
    object_id: ObjectId

    def __repr__(self) -> str:
        return f"ObjectReference({self.name.decode(errors='replace')!r}, {self.size} bytes)"
