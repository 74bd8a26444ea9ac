"""The serializer that document 4 shows, with the one mistake that keeps it from running as printed put right."""

from __future__ import annotations

import enum
import pickle
import struct
from io import BytesIO
from typing import Any

import pytest
from cloudpickle import cloudpickle

from scaler import Client, SchedulerClusterCombo, Serializer

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


class ObjType(enum.Enum):
    General = b"G"
    Integer = b"I"
    DataFrame = b"D"


class CustomSerializer(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        if isinstance(obj, pd.DataFrame):
            buf = BytesIO()
            obj.to_parquet(buf)
            return ObjType.DataFrame.value + buf.getvalue()

        if isinstance(obj, int):
            return ObjType.Integer.value + struct.pack("I", obj)

        return ObjType.General.value + cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        # Printed was ObjType(payload[0]): an item of bytes is a number, which no member of the enum is.
        obj_type = ObjType(payload[:1])
        payload = payload[1:]

        if obj_type == ObjType.DataFrame:
            return pd.read_parquet(BytesIO(payload))

        if obj_type == ObjType.Integer:
            return struct.unpack("I", payload)[0]

        return cloudpickle.loads(payload)


def test_the_serializer_of_the_documents() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    combo = SchedulerClusterCombo(n_workers=1)
    with combo, Client(address=combo.get_address(), serializer=CustomSerializer()) as client:
        assert client.submit(lambda a, b: a + b, 1, 2).result(60) == 3
        assert client.submit(lambda one: one * 2, frame).result(60)["a"].tolist() == [2, 4, 6]
