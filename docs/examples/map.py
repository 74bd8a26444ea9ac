from scaler import Client, SchedulerClusterCombo


def scaled(value, factor=10):
    return value * factor


cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    print(client.map(scaled, range(5)))

    # Several iterables, as with the builtin: until the shortest ends.
    print(client.map(pow, [2, 3, 4], [5, 6, 7]))

    # Tuples of arguments.
    print(client.starmap(pow, [(2, 5), (3, 6)]))

    # A generator is read as tasks get done, not all at once.
    print(sum(client.map(scaled, (number for number in range(100_000)))))

    # Nothing is fine too.
    print(client.map(scaled, []))

cluster.shutdown()
