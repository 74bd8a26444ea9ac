"""A task whose parts together are larger than the channel to its processor takes at once still arrives whole.

Each part is small enough to travel inside a batch; together they are more than a socket pair's buffer. What does not
fit is written when the processor has read some: that needs the agent to wait for it.
"""

from scaler import Client, SchedulerClusterCombo

PART_BYTES = 60_000
PART_COUNT = 32
RESULT_SECONDS = 30.0


def make(size: int) -> bytes:
    return b"x" * size


def total(*parts: bytes) -> int:
    return sum(map(len, parts))


def test_a_graph_node_with_many_inline_parts_runs() -> None:
    keys = [f"part {number}" for number in range(PART_COUNT)]
    graph = {"size": PART_BYTES, **dict.fromkeys(keys, (make, "size")), "total": (total, *keys)}
    with SchedulerClusterCombo(n_workers=1) as combo, Client(address=combo.get_address()) as client:
        future = client.get(graph, ["total"], block=False)["total"]
        assert future.result(timeout=RESULT_SECONDS) == PART_BYTES * PART_COUNT
