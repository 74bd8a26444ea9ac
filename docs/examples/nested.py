from scaler import Client, SchedulerClusterCombo


def fibonacci(client, n):
    if n < 2:
        return n
    left = client.submit(fibonacci, client, n - 1)
    right = client.submit(fibonacci, client, n - 2)
    return left.result() + right.result()


def words(line):
    return len(line.split())


def count_words(lines):
    # Inside a task, a client without an address finds the cluster that the task runs in.
    with Client() as client:
        return sum(client.map(words, lines))


# One worker is enough: a task that waits for its children does not hold its place.
cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    print(client.submit(fibonacci, client, 8).result())
    print(client.submit(count_words, ["a line", "and another line"]).result())

cluster.shutdown()
