from scaler import Client, SchedulerClusterCombo


def square(number):
    return number * number


cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    future = client.submit(square, 4)
    print(future.result())

    print(sum(client.map(square, range(1000))))

    graph = {"a": 2, "b": 3, "product": (lambda a, b: a * b, "a", "b"), "answer": (square, "product")}
    print(client.get(graph, keys=["answer"]))

cluster.shutdown()
