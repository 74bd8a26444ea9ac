import zlib

import cloudpickle

from scaler import Client, SchedulerClusterCombo, Serializer


class Compressed(Serializer):
    """Made for large texts over a slow network."""

    @staticmethod
    def serialize(obj):
        return zlib.compress(cloudpickle.dumps(obj))

    @staticmethod
    def deserialize(payload):
        return cloudpickle.loads(zlib.decompress(payload))


cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")

with Client(address=cluster.get_address(), serializer=Compressed()) as client:
    print(client.submit(str.count, "to be or not to be " * 10_000, "be").result())

cluster.shutdown()
