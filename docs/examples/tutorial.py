import itertools
import random

import scaler


def inside(points, seed):
    """How many of so many random points lie in the quarter of a circle."""
    source = random.Random(seed)
    return sum(source.random() ** 2 + source.random() ** 2 < 1 for _ in range(points))


def estimate(counts, points):
    return 4 * sum(counts) / (points * len(counts))


with scaler.local(workers=2) as client:
    # 1. One call. The future stands for its result.
    future = client.submit(inside, 1_000, seed=0)
    print("one task counted", future.result())

    # 2. Many calls, and all results in order.
    counts = client.map(inside, [1_000] * 200, range(200))
    print("pi is about", round(estimate(counts, 1_000), 2))

    # 3. Results as they come, over an iterable without end. Leaving the loop cancels the rest.
    hits = points = 0
    for count in client.imap(inside, itertools.repeat(1_000), itertools.count(), ordered=False, window=50):
        hits, points = hits + count, points + 1_000
        if points == 100_000:
            break
    print("after", points, "points:", round(4 * hits / points, 1))

    # 4. A graph: the nodes run as soon as what they need is there.
    graph = {"a": (inside, 1_000, 1), "b": (inside, 1_000, 2), "pi": (lambda a, b: 4 * (a + b) / 2_000, "a", "b")}
    print("by a graph:", round(client.get(graph, "pi"), 1))

    # 5. An error of a task is raised where its result is asked for.
    broken = client.submit(inside, "many", seed=0)
    print("it raised", type(broken.exception()).__name__)
