from scaler import Client, SchedulerClusterCombo


def load(name):
    return list(range(len(name)))


def total(*parts):
    return sum(map(sum, parts))


def report(value, title):
    return f"{title}: {value}"


# A tuple that begins with a function is a call, and the strings in it are keys.
# Anything else is data, which is how a call gets a text.
graph = {
    "title": "sum",
    "one": "a name",
    "other": "another name",
    "left": (load, "one"),
    "right": (load, "other"),
    "total": (total, "left", "right"),
    "report": (report, "total", "title"),
    "never": (load, "title"),  # not needed for any key asked for, so it does not run
}

cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    print(client.get(graph, keys=["report", "total"]))

    futures = client.get(graph, keys=["left", "right"], block=False)
    print({key: len(future.result()) for key, future in futures.items()})

cluster.shutdown()
