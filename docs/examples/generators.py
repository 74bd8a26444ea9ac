import time

from scaler import Client, SchedulerClusterCombo


def training(epochs):
    """Each value arrives while this runs."""
    loss = 8.0
    try:
        for epoch in range(epochs):
            time.sleep(0.01)
            loss /= 2
            yield epoch, loss
    finally:
        print("the model is saved")  # on the worker
    return loss


def until_good_enough(client):
    with client.stream(training, epochs=1_000_000, window=2) as progress:
        for epoch, loss in progress:
            print(f"epoch {epoch}: loss {loss}")
            if loss < 0.5:
                return  # leaves the `with` block: the generator is stopped, and its `finally` runs


def lines_of(texts):
    for text in texts:
        yield from text.splitlines()
    raise ValueError("the last text is cut off")


with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster) as client:
    until_good_enough(client)
    lines = client.stream(lines_of, ["one\ntwo", "three"])
    try:
        for line in lines:
            print(line)
    except ValueError as error:
        print("behind the last line:", error)
