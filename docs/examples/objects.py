from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import MissingObjects

table = {number: number**2 for number in range(100_000)}


def look_up(table, key):
    return table[key]


cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    # Stored once, fetched once by each worker, however many tasks use it.
    reference = client.send_object(table, name="squares")
    print(sum(client.submit(look_up, reference, key).result() for key in range(10)))

    # clear() ends what is unfinished and forgets the references; the client goes on.
    client.clear()
    try:
        client.submit(look_up, reference, 1)
    except MissingObjects as error:
        print(type(error).__name__)
    print(client.submit(abs, -3).result())

cluster.shutdown()
