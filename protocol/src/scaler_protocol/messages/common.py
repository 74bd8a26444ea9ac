"""What the records of all messages are made of."""

from __future__ import annotations

from scaler_protocol.ids import GraphId, ObjectId, PeerId, Salt, TaskId

Buffer = bytes | bytearray | memoryview

NO_PEER = PeerId(b"")
NO_TASK = TaskId(b"")
NO_OBJECT = ObjectId(b"")
NO_GRAPH = GraphId(b"")
NO_SALT = Salt(b"")
